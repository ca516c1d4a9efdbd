import {
  BinaryMessageError,
  decodeBinaryText,
  ENDS_IN_TEXT,
  isBinaryMessage,
  readTextLength,
  TEXT_LENGTH_BYTES,
} from './binary-message.ts';
import { GrowableBuffer } from './growable-buffer.ts';
import type { BytesMessage, LargeMessage } from './transport.ts';

/** Where the parts of a binary message go. */
interface BinaryMessageEvents {
  bytesMessage(message: BytesMessage): void;
  undecodable(reason: string): void;
}

/** Receives a binary message in chunks. Its bytes are in pooled memory. Of a message with too much JSON nothing is kept. */
export class BinaryMessageReader implements LargeMessage {
  readonly #expectedBytes: number;
  readonly #events: BinaryMessageEvents;
  /** The length and the JSON. */
  readonly #head = new GrowableBuffer(TEXT_LENGTH_BYTES);
  #bytes: GrowableBuffer | null = null;
  #problem: string | null = null;

  constructor(expectedBytes: number, events: BinaryMessageEvents) {
    this.#expectedBytes = expectedBytes;
    this.#events = events;
  }

  add(piece: Uint8Array): void {
    let rest = piece;
    try {
      while (rest.length > 0 && this.#problem === null && this.#bytes === null) rest = this.#addHead(rest);
    } catch (error) {
      if (!(error instanceof BinaryMessageError)) throw error;
      this.#problem = error.message;
    }
    if (this.#problem === null) this.#bytes?.add(rest);
  }

  /** The JSON is checked at the end; the rest need not be UTF-8. */
  isUtf8(): boolean {
    return true;
  }

  end(): void {
    const bytes = this.#bytes;
    try {
      if (this.#problem !== null || bytes === null)
        throw new BinaryMessageError(this.#problem ?? ENDS_IN_TEXT);
      const text = decodeBinaryText(this.#head.bytes.subarray(TEXT_LENGTH_BYTES));
      this.#events.bytesMessage({ text, bytes: bytes.bytes, release: () => bytes.release() });
    } catch (error) {
      if (!(error instanceof BinaryMessageError)) throw error;
      bytes?.release();
      this.#events.undecodable(error.message);
    } finally {
      this.#head.release();
    }
  }

  /** Adds bytes up to the end of the length, and then up to that of the JSON. Returns the rest. Throws BinaryMessageError. */
  #addHead(piece: Uint8Array): Uint8Array {
    const part = piece.subarray(0, this.#headEnd() - this.#head.length);
    this.#head.add(part);
    const { length } = this.#head;
    // Without JSON the head ends with its length.
    if (length >= TEXT_LENGTH_BYTES && length === this.#headEnd())
      this.#bytes = new GrowableBuffer(Math.max(0, this.#expectedBytes - length));
    return piece.subarray(part.length);
  }

  /** The end of the part of the head whose length is known. */
  #headEnd(): number {
    const { bytes } = this.#head;
    return bytes.length < TEXT_LENGTH_BYTES ? TEXT_LENGTH_BYTES : TEXT_LENGTH_BYTES + readTextLength(bytes);
  }
}

/** The payload of a large binary frame. Its first byte decides what it is. */
export class LargeBinaryFrame implements LargeMessage {
  readonly #receiver: (isMessage: boolean) => LargeMessage;
  #message: LargeMessage | null = null;

  constructor(receiver: (isMessage: boolean) => LargeMessage) {
    this.#receiver = receiver;
  }

  /** The first piece has a byte at least. */
  add(piece: Uint8Array): void {
    this.#message ??= this.#receiver(isBinaryMessage(piece));
    this.#message.add(piece);
  }

  isUtf8(): boolean {
    return this.#message!.isUtf8();
  }

  end(): void {
    this.#message!.end();
  }
}
