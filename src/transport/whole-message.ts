import { isUtf8 } from 'node:buffer';
import { GrowingBytes } from './growing-bytes.ts';
import type { LargeMessage } from './transport.ts';

/** A large message for somebody who wants it in one piece. */
export class WholeMessage implements LargeMessage {
  readonly #bytes: GrowingBytes;
  readonly #ended: (bytes: Buffer) => void;

  constructor(expectedBytes: number, ended: (bytes: Buffer) => void) {
    this.#bytes = new GrowingBytes(expectedBytes);
    this.#ended = ended;
  }

  add(piece: Uint8Array): void {
    this.#bytes.add(piece);
  }

  isUtf8(): boolean {
    return isUtf8(this.#bytes.bytes);
  }

  end(): void {
    this.#ended(this.#bytes.bytes);
  }
}
