import { GrowingBytes } from '../transport/growing-bytes.ts';
import { DECODED_AT_ONCE_CHARACTERS } from './limits.ts';
import { decodeBase64, isStrict } from './strict-base64.ts';

/** Standard base64 with padding that is decoded while it arrives, wherever it is cut. */
export class ArrivingBase64 {
  readonly #decoded: GrowingBytes;
  /** The last characters, which may be the end: they are decoded when more follow, or with {@link end}. */
  readonly #held = Buffer.alloc(GROUP);
  #heldCount = 0;

  constructor(expectedCharacters: number) {
    this.#decoded = new GrowingBytes(Math.max(0, Math.ceil((expectedCharacters / GROUP) * 3)));
  }

  /** What was decoded so far. */
  get bytes(): Buffer {
    return this.#decoded.bytes;
  }

  /** Gives the memory of the bytes away. */
  release(): void {
    this.#decoded.release();
  }

  /** Takes characters in ASCII; returns how many, which are fewer than all when it is not base64. */
  add(characters: Buffer): number {
    let at = 0;
    while (this.#heldCount > 0 && at < characters.length) {
      if (this.#heldCount < GROUP) {
        this.#held[this.#heldCount++] = characters[at++]!;
      } else {
        if (!this.#decode(this.#held, 0, GROUP)) return at;
        this.#heldCount = 0;
      }
    }
    if (at === characters.length) return at;
    const end = characters.length - ((characters.length - at) % GROUP || GROUP);
    for (; at < end; at = Math.min(at + DECODED_AT_ONCE_CHARACTERS, end)) {
      if (!this.#decode(characters, at, Math.min(at + DECODED_AT_ONCE_CHARACTERS, end))) return at;
    }
    this.#heldCount = characters.copy(this.#held, 0, end);
    return characters.length;
  }

  /** Decodes what is held. False, and nothing is changed, when the text may not end here. */
  end(): boolean {
    const last = decodeBase64(this.#held.toString('latin1', 0, this.#heldCount));
    if ('problem' in last) return false;
    this.#decoded.add(last);
    this.#heldCount = 0;
    return true;
  }

  /** The characters that were taken. There is only one text of which these bytes can have come. */
  text(): string {
    return `${this.bytes.toString('base64')}${this.#held.toString('latin1', 0, this.#heldCount)}`;
  }

  #decode(characters: Buffer, from: number, to: number): boolean {
    const text = characters.toString('latin1', from, to);
    const count = this.#decoded.room(((to - from) / GROUP) * 3).write(text, 'base64');
    if (!isStrict(text, 0, count)) return false;
    this.#decoded.grow(count);
    return true;
  }
}

/** Characters that stand for three bytes. */
const GROUP = 4;
