/** Random numbers that depend on a seed alone, so that a run can be repeated. */
export class Random {
  #state;

  /** @param {number} seed @param {number} [stream] Tells apart independent sequences of one seed. */
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

  /** A whole number of `min` to `max`, both included. */
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

  /** Text that is no path, no URI and no program: what it is given for can do no harm. */
  text() {
    const characters = [...'abcXYZ019 _-.,"\\{}[]\n\t\0é漢💥\u202e\ud800'];
    return `X${Array.from({ length: this.int(0, 24) }, () => this.pick(characters)).join('')}`;
  }
}
