/** Pseudo-random numbers that depend only on the seed, so that a run is reproducible. */
export class Random {
  #state;

  /** @param {number} seed @param {number} [stream] Selects one of several independent sequences of a seed. */
  constructor(seed, stream = 0) {
    this.#state = (Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(stream + 1, 0xc2b2ae35)) >>> 0;
  }

  /** At least 0 and below 1. */
  next() {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer from `min` to `max`, inclusive. */
  int(min, max) {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  chance(probability) {
    return this.next() < probability;
  }

  /** @template T @param {readonly T[]} choices @returns {T} */
  pick(choices) {
    return choices[this.int(0, choices.length - 1)];
  }

  /** @param {number} length */
  bytes(length) {
    return Buffer.from({ length }, () => this.int(0, 255));
  }

  /** Text that is not a path, a URI or a program, so that it is harmless wherever it is used. */
  text() {
    const characters = [...'abcXYZ019 _-.,"\\{}[]\n\t\0é漢💥\u202e\ud800'];
    return `X${Array.from({ length: this.int(0, 24) }, () => this.pick(characters)).join('')}`;
  }
}
