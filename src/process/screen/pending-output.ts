import type { TerminalSize } from '../terminal-size.ts';
import type { TerminalInput } from './drawn-screen.ts';
import { ESC, forEachSequence } from './escape-sequences.ts';
import { CONTROL_STRING_HEAD_BYTES } from './limits.ts';

/** Output and resizes in their order. It begins outside of an escape sequence. */
export class PendingOutput {
  readonly #maxBytes: number;
  /** What came before the last resize, and that resize. */
  #before: TerminalInput[] = [];
  #bytes: Buffer = NO_BYTES;
  #length = 0;
  #lengthBefore = 0;

  /** `maxBytes`: the usual limit of its caller, beyond which nothing is allocated in advance. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes of output. */
  get length(): number {
    return this.#lengthBefore + this.#length;
  }

  /** Memory, free space included. */
  get allocatedBytes(): number {
    return this.#lengthBefore + this.#bytes.length;
  }

  get resizes(): number {
    return this.#before.filter((input) => !Buffer.isBuffer(input)).length;
  }

  /** Copies the bytes. */
  append(bytes: Buffer): void {
    const needed = this.#length + bytes.length;
    if (needed > this.#bytes.length) {
      const doubled = Math.min(this.#maxBytes, Math.max(INITIAL_BYTES, this.#bytes.length * 2));
      const grown = Buffer.allocUnsafeSlow(Math.max(needed, doubled));
      this.#bytes.copy(grown, 0, 0, this.#length);
      this.#bytes = grown;
    }
    bytes.copy(this.#bytes, this.#length);
    this.#length = needed;
  }

  resize(size: TerminalSize): void {
    if (this.#length > 0) this.#before.push(this.#bytes.subarray(0, this.#length));
    else if (this.#before.length > 0) this.#before.pop();
    this.#before.push(size);
    this.#lengthBefore += this.#length;
    this.#bytes = NO_BYTES;
    this.#length = 0;
  }

  /** The output, when there was no resize; otherwise null. Valid until the next change. */
  unresized(): Buffer | null {
    return this.#before.length === 0 ? this.#bytes.subarray(0, this.#length) : null;
  }

  /** A copy of all of it. */
  inputs(): TerminalInput[] {
    return [...this.#before, Buffer.from(this.#bytes.subarray(0, this.#length))];
  }

  /** Removes the output before an offset, when there was no resize, and starts in the first column instead. */
  startLineAt(offset: number): void {
    this.#bytes[0] = CARRIAGE_RETURN;
    this.#bytes.copyWithin(1, offset, this.#length);
    this.#length = 1 + this.#length - offset;
  }

  clear(): void {
    this.#restart(NO_BYTES);
  }

  /** Removes and returns everything but an unfinished sequence or character at the end. */
  take(): TerminalInput[] {
    const inputs = [...this.#before, this.#bytes.subarray(0, this.#length)];
    const bytes = Buffer.concat(inputs.filter((input) => Buffer.isBuffer(input)));
    const end = forEachSequence(bytes, () => true);
    this.#restart(Buffer.from(bytes.subarray(end)));
    return upTo(inputs, end);
  }

  /** Shortens an unfinished control string, such as an image, whose content no screen depends on. */
  shorten(): void {
    const rest = this.#bytes.subarray(0, this.#length);
    const end = rest.at(-1) === ESC ? rest.length - 1 : rest.length;
    this.#restart(
      Buffer.concat([rest.subarray(0, Math.min(end, CONTROL_STRING_HEAD_BYTES)), rest.subarray(end)]),
    );
  }

  #restart(bytes: Buffer): void {
    this.#before = [];
    this.#lengthBefore = 0;
    this.#bytes = bytes;
    this.#length = bytes.length;
  }
}

/** The inputs without the bytes from an offset on. */
export function upTo(inputs: readonly TerminalInput[], offset: number): TerminalInput[] {
  let left = offset;
  return inputs.map((input) => {
    if (!Buffer.isBuffer(input)) return input;
    const part = input.subarray(0, left);
    left -= part.length;
    return part;
  });
}

const NO_BYTES = Buffer.alloc(0);
const INITIAL_BYTES = 4096;
const CARRIAGE_RETURN = 0x0d;
