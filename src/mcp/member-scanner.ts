import { MAX_MEMBER_BYTES, MAX_MEMBERS } from './limits.ts';

/**
 * Finds the members of a JSON object that are texts or numbers, without keeping the object. Names and values that are long are left
 * out. What is not JSON gives members that mean nothing.
 */
export class MemberScanner {
  /** The JSON of each value, by name. */
  readonly members = new Map<string, string>();
  #depth = 0;
  #inText = false;
  #isEscaped = false;
  #name: string | null = null;
  /** The name or value that is being read, in JSON. */
  #token: number[] = [];

  push(chunk: Uint8Array): void {
    for (const byte of chunk) this.#next(byte);
  }

  #next(byte: number): void {
    if (this.#inText) {
      this.#keep(byte);
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === BACKSLASH) this.#isEscaped = true;
      else if (byte === QUOTE) this.#inText = false;
      return;
    }
    switch (byte) {
      case QUOTE:
        this.#inText = true;
        this.#keep(byte);
        break;
      case OPEN_OBJECT:
      case OPEN_LIST:
        this.#depth += 1;
        break;
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        if (this.#depth === 1) this.#endMember();
        this.#depth -= 1;
        break;
      case COMMA:
        if (this.#depth === 1) this.#endMember();
        break;
      case COLON:
        if (this.#depth === 1) this.#endName();
        break;
      default:
        this.#keep(byte);
    }
  }

  #keep(byte: number): void {
    if (this.#depth === 1 && this.#token.length <= MAX_MEMBER_BYTES) this.#token.push(byte);
  }

  #take(): string | null {
    const text = Buffer.from(this.#token).toString('utf8').trim();
    const isWhole = this.#token.length <= MAX_MEMBER_BYTES;
    this.#token = [];
    return isWhole && text !== '' ? text : null;
  }

  #endName(): void {
    const text = this.#take();
    this.#name = text === null ? null : text.replace(/^"|"$/g, '');
  }

  #endMember(): void {
    const value = this.#take();
    if (this.#name !== null && value !== null && this.members.size < MAX_MEMBERS) {
      this.members.set(this.#name, value);
    }
    this.#name = null;
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
