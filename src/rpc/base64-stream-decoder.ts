import { GrowableBuffer } from '../transport/growable-buffer.ts';
import { decodeGroups } from './base64.ts';
import { Base64Fault, decodeStrictBase64 } from './strict-base64.ts';

/** Decodes standard base64 with padding while it arrives, in chunks of any size. */
export class Base64StreamDecoder {
  readonly #decoded: GrowableBuffer;
  /**
   * The last characters, which may be the end of the text. They are decoded when more follow, or by {@link end}.
   */
  readonly #held = Buffer.alloc(GROUP);
  #heldCount = 0;

  constructor(expectedCharacters: number) {
    this.#decoded = new GrowableBuffer(Math.max(0, Math.ceil((expectedCharacters / GROUP) * 3)));
  }

  /** The bytes decoded so far. */
  get bytes(): Buffer {
    return this.#decoded.bytes;
  }

  /** The last characters, which were received but not decoded. */
  get held(): string {
    return this.#held.toString('latin1', 0, this.#heldCount);
  }

  /**
   * Starts to look for the fault in the text. The next characters to add are those that {@link add} did not accept.
   */
  fault(): Base64Fault {
    const fault = new Base64Fault((this.#decoded.length / 3) * GROUP);
    fault.add(this.held);
    return fault;
  }

  /** Returns the memory of the bytes to the pool. */
  release(): void {
    this.#decoded.release();
  }

  /** Adds ASCII characters and returns how many were accepted: fewer than all when the text is not base64. */
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

  /**
   * Decodes the held characters, and moves a short result out of a large buffer. Returns false and changes nothing
   * when the text must not end here.
   */
  end(): boolean {
    const last = decodeStrictBase64(this.held);
    if ('problem' in last) return false;
    this.#decoded.add(last);
    this.#decoded.fit();
    this.#heldCount = 0;
    return true;
  }

  /** The number of accepted characters. */
  get textLength(): number {
    return Math.ceil(this.#decoded.length / 3) * GROUP + this.#heldCount;
  }

  /** Returns the accepted characters. Exactly one canonical text decodes to these bytes. */
  text(): string {
    return `${this.bytes.toString('base64')}${this.held}`;
  }

  #decode(groups: Buffer): boolean {
    const count = decodeGroups(groups, this.#decoded.reserve((groups.length / GROUP) * 3));
    this.#decoded.grow(count ?? 0);
    return count !== null;
  }
}

/** Characters that encode three bytes. */
const GROUP = 4;
