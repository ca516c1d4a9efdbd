import { isUtf8 } from 'node:buffer';
import type { Readable, Writable } from 'node:stream';
import { LineSplitter } from '../base/line-splitter.ts';
import { CLOSE_TIMEOUT_MS, NEW_PEER_MESSAGE_BYTES, SEND_WINDOW_BYTES } from './limits.ts';
import { CloseCode, type CloseReason, type Transport, type TransportEvents } from './transport.ts';

/** Options of a stdio transport. */
interface StdioOptions {
  readonly maxMessageBytes: number;
  /** Whether the peer is a client, whose messages must be small before its `initialize`. Default false. */
  readonly isServer?: boolean;
}

/**
 * Newline-delimited JSON over a pair of byte streams. CRLF and blank lines are accepted. The end of the input ends
 * the incoming side only. A close waits for a limited time until everything is sent. After the end of the input
 * this time restarts with each message that leaves: a slow reader loses nothing, and a peer that does not read
 * delays no other.
 */
export class StdioTransport implements Transport {
  readonly #input: Readable;
  readonly #output: Writable;
  readonly #lines: LineSplitter;
  readonly #maxMessageBytes: number;
  #events: TransportEvents | null = null;
  #pendingBytes = 0;
  #congested = false;
  #inputEnded = false;
  #closing: CloseReason | null = null;
  #closeTimeout: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(input: Readable, output: Writable, options: StdioOptions) {
    this.#input = input;
    this.#output = output;
    const { maxMessageBytes, isServer = false } = options;
    this.#maxMessageBytes = maxMessageBytes;
    this.#lines = new LineSplitter(
      isServer ? Math.min(NEW_PEER_MESSAGE_BYTES, maxMessageBytes) : maxMessageBytes,
    );
  }

  peerInitialized(): void {
    this.#lines.maxLineBytes = this.#maxMessageBytes;
  }

  open(events: TransportEvents): void {
    this.#events = events;
    this.#output.on('error', () => this.#end({ code: CloseCode.abnormal, reason: 'the output was closed' }));
    this.#input.on('error', () => this.#end({ code: CloseCode.abnormal, reason: 'the input failed' }));
    this.#input.on('data', (chunk: Buffer) => this.#receive(chunk));
    this.#input.on('end', () => this.#finish());
    this.#input.on('close', () => {
      if (!this.#input.readableEnded) this.#end({ code: CloseCode.abnormal, reason: 'the input was closed' });
    });
  }

  send(message: string | Uint8Array): boolean {
    return this.#write(
      typeof message === 'string' ? Buffer.from(`${message}\n`) : Buffer.concat([message, NEWLINE]),
    );
  }

  sendPart(part: Uint8Array, last: boolean, released?: () => void): boolean {
    const hasCapacity = this.#write(part, released);
    return last ? this.#write(NEWLINE) : hasCapacity;
  }

  setReceiving(receiving: boolean): void {
    if (receiving) this.#input.resume();
    else this.#input.pause();
  }

  close(reason: CloseReason): void {
    if (this.#closing !== null) return;
    this.#closing = reason;
    this.#input.pause();
    if (this.#pendingBytes === 0) this.#end(reason);
    else this.#closeTimeout = setTimeout(() => this.#end(reason), CLOSE_TIMEOUT_MS).unref();
  }

  #write(bytes: Uint8Array, released?: () => void): boolean {
    if (this.#closed) return true;
    this.#pendingBytes += bytes.length;
    this.#output.write(bytes, () => {
      released?.();
      this.#sent(bytes.length);
    });
    // Congestion lasts until `drained`, because the caller waits for that.
    this.#congested ||= this.#pendingBytes > SEND_WINDOW_BYTES;
    return !this.#congested;
  }

  #receive(chunk: Buffer): void {
    const lines = this.#lines.push(chunk);
    for (let line = this.#next(lines); line !== null; line = this.#next(lines)) this.#line(line);
  }

  #next(lines: Generator<Buffer, void>): Buffer | null {
    try {
      return lines.next().value ?? null;
    } catch (error) {
      this.close({ code: CloseCode.messageTooBig, reason: (error as Error).message });
      return null;
    }
  }

  #line(line: Buffer): void {
    if (this.#closing !== null || this.#closed) return;
    if (!isUtf8(line)) {
      this.close({ code: CloseCode.protocolError, reason: 'a line is not valid UTF-8' });
      return;
    }
    const text = line.toString();
    if (text.trim() !== '') this.#events?.message(text);
  }

  #finish(): void {
    const rest = this.#lines.rest();
    if (rest.length > 0) this.#line(rest);
    this.#inputEnded = true;
    if (this.#closing === null && !this.#closed) this.#events?.ended();
  }

  #sent(bytes: number): void {
    this.#pendingBytes -= bytes;
    if (this.#closing !== null && this.#pendingBytes === 0) this.#end(this.#closing);
    if (this.#inputEnded && !this.#closed) this.#closeTimeout?.refresh();
    if (!this.#congested || this.#pendingBytes > SEND_WINDOW_BYTES / 2) return;
    this.#congested = false;
    if (!this.#closed) this.#events?.drained();
  }

  #end(reason: CloseReason): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#closeTimeout !== null) clearTimeout(this.#closeTimeout);
    this.#input.pause();
    this.#events?.closed(reason);
  }
}

const NEWLINE = Buffer.from('\n');
