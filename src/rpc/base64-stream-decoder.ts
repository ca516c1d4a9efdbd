import { GrowableBuffer } from '../transport/growable-buffer.ts';
import { decodeGroups } from './base64.ts';
import { Base64Fault, decodeStrictBase64 } from './strict-base64.ts';

/** Standard base64 with padding that is decoded while it arrives, wherever it is cut. */
export class Base64StreamDecoder {
  readonly #decoded: GrowableBuffer;
  /** The last characters, which may be the end: they are decoded when more follow, or with {@link end}. */
  readonly #held = Buffer.alloc(GROUP);
  #heldCount = 0;

  constructor(expectedCharacters: number) {
    this.#decoded = new GrowableBuffer(Math.max(0, Math.ceil((expectedCharacters / GROUP) * 3)));
  }

  /** What was decoded so far. */
  get bytes(): Buffer {
    return this.#decoded.bytes;
  }

  /** The last characters, which were taken and are not decoded. */
  get held(): string {
    return this.#held.toString('latin1', 0, this.#heldCount);
  }

  /** Begins to look for what is wrong with the text, of which the next characters are those behind the ones that were taken. */
  fault(): Base64Fault {
    const fault = new Base64Fault((this.#decoded.length / 3) * GROUP);
    fault.add(this.held);
    return fault;
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
        if (!this.#decode(this.#held)) return at;
        this.#heldCount = 0;
      }
    }
    if (at === characters.length) return at;
    const end = characters.length - ((characters.length - at) % GROUP || GROUP);
    if (at < end && !this.#decode(characters.subarray(at, end))) return at;
    this.#heldCount = characters.copy(this.#held, 0, end);
    return characters.length;
  }

  /** Decodes what is held; few bytes do not keep much memory. False, and nothing is changed, when the text may not end here. */
  end(): boolean {
    const last = decodeStrictBase64(this.held);
    if ('problem' in last) return false;
    this.#decoded.add(last);
    this.#decoded.fit();
    this.#heldCount = 0;
    return true;
  }

  /** The characters that were taken. There is only one text of which these bytes can have come. */
  text(): string {
    return `${this.bytes.toString('base64')}${this.held}`;
  }

  #decode(groups: Buffer): boolean {
    const count = decodeGroups(groups, this.#decoded.room((groups.length / GROUP) * 3));
    this.#decoded.grow(count ?? 0);
    return count !== null;
  }
}

/** Characters that stand for three bytes. */
const GROUP = 4;
