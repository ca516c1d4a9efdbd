import { RpcErrorCode } from '../../protocol/errors.ts';
import { bytesParam } from '../connection/bytes.ts';
import { ChunkQueue } from '../connection/chunk-queue.ts';
import { ConsumptionReports } from '../connection/consumption.ts';
import { ClientError } from '../errors.ts';
import {
  MAX_TCP_CHUNK_BYTES,
  TCP_LARGE_WRITE_BYTES,
  TCP_QUEUE_MAX_CHUNKS,
  TCP_SMALL_WRITE_BYTES,
  TCP_UNANSWERED_WRITES,
} from '../limits.ts';
import type { TcpClient } from './tcp-streams.ts';

/**
 * A TCP connection of the server, in both directions. Each direction ends on its own: `end` ends the sending side, and `next` returns
 * null after the peer has ended its side.
 */
export class TcpStream {
  readonly #id: string;
  readonly #client: TcpClient;
  /** Permits for large and further writes, shared by all streams of a client. */
  readonly #largeWrites: { free: number };
  /** Called when the server no longer counts the stream. */
  readonly #left: () => void;
  readonly #queue: ChunkQueue;
  readonly #reports: ConsumptionReports;
  /** Received bytes that wait for the reader. */
  #waitingBytes = 0;
  #unanswered = 0;
  #sendingEnded = false;
  #peerEnded = false;
  /** Whether the stream is over, on the server or with the connection. */
  #over = false;
  #failure: ClientError | null = null;
  #wakeWriter: () => void = () => {};

  constructor(
    id: string,
    windowBytes: number,
    client: TcpClient,
    largeWrites: { free: number },
    left: () => void,
  ) {
    this.#id = id;
    this.#client = client;
    this.#largeWrites = largeWrites;
    this.#left = left;
    this.#queue = new ChunkQueue(TCP_QUEUE_MAX_CHUNKS, (bytes) => {
      this.#waitingBytes += bytes;
      // One chunk may exceed the window.
      return this.#waitingBytes <= windowBytes + MAX_TCP_CHUNK_BYTES;
    });
    this.#reports = new ConsumptionReports(windowBytes, (bytes) => this.#report(bytes));
  }

  /** Returns the next bytes, or null after the peer has ended its side. Rejects when the stream broke. */
  async next(): Promise<Uint8Array | null> {
    const chunk = await this.#queue.next();
    if (chunk !== null) this.#reports.consumed(chunk.length);
    return chunk;
  }

  /**
   * Sends bytes to the peer. Resolves when more may be written, which is as fast as the peer reads. A second call must wait for the
   * first. Rejects when the stream broke. Bytes for a peer that has closed its side are dropped, as in TCP.
   */
  async write(bytes: Uint8Array): Promise<void> {
    for (let from = 0; from < bytes.length && !this.#over; ) {
      const isLarge = this.#takeLarge();
      if (!isLarge && this.#unanswered > 0) {
        await this.#nextAnswer();
        continue;
      }
      const to = from + (isLarge ? TCP_LARGE_WRITE_BYTES : TCP_SMALL_WRITE_BYTES);
      void this.#send(bytes.subarray(from, to), isLarge);
      from = to;
    }
    while (this.#unanswered >= TCP_UNANSWERED_WRITES && !this.#over) await this.#nextAnswer();
    this.#check();
  }

  /** Ends the sending side. Resolves when the system of the server has all earlier bytes. */
  async end(): Promise<void> {
    this.#sendingEnded = true;
    try {
      if (!this.#over) await this.#client.call('tcp/end', { streamId: this.#id });
    } catch (error) {
      this.#writeFailed(error);
    }
    this.#check();
  }

  /** Releases the stream. Resets its connection unless both sides have ended. */
  close(): void {
    const isRegularEnd = this.#sendingEnded && this.#peerEnded;
    // The server counts the stream until it has answered, or has sent `tcp/closed`.
    if (!this.#over && !isRegularEnd)
      this.#client.call('tcp/close', { streamId: this.#id }).then(this.#left, this.#left);
    this.#finish(new ClientError('closed', 'the TCP stream was closed'));
    this.#queue.drop(this.#peerEnded ? null : this.#failure);
  }

  /** Bytes have arrived. Returns false when there are more than the window allows. */
  received(bytes: Uint8Array): boolean {
    return this.#queue.done || bytes.length === 0 || this.#queue.push(bytes);
  }

  /** The peer has ended its side. */
  peerEnded(): void {
    this.#peerEnded = true;
    this.#queue.end();
  }

  /** The server has closed the stream, with the reason if it broke. */
  closed(reason: string | null): void {
    const failure =
      reason === null ? null : new ClientError('disconnected', `the TCP stream broke: ${reason}`);
    this.#left();
    this.#finish(failure);
    this.#queue.end(failure);
  }

  /** The connection to the server is lost, and the stream with it. */
  lost(error: ClientError): void {
    this.#left();
    this.#finish(error);
    this.#queue.end(error);
  }

  /** Gives the stream up with an error. */
  fail(error: ClientError): void {
    this.close();
    this.#failure = error;
    this.#queue.drop(error);
  }

  #finish(failure: ClientError | null): void {
    if (this.#over) return;
    this.#over = true;
    this.#failure = failure;
    this.#wakeWriter();
  }

  /** While received bytes wait, the reader gets the error after them. Throwing it here would make a caller drop them. */
  #check(): void {
    if (this.#failure !== null && this.#waitingBytes === 0) throw this.#failure;
  }

  #takeLarge(): boolean {
    if (this.#unanswered >= TCP_UNANSWERED_WRITES || this.#largeWrites.free === 0) return false;
    this.#largeWrites.free--;
    return true;
  }

  async #send(bytes: Uint8Array, isLarge: boolean): Promise<void> {
    this.#unanswered++;
    try {
      // A copy, because the call is encoded later.
      const chunk = bytesParam(bytes, { takesBytes: true });
      if (!this.#over) await this.#client.call('tcp/data', { streamId: this.#id, chunk });
    } catch (error) {
      this.#writeFailed(error);
    } finally {
      this.#unanswered--;
      if (isLarge) this.#largeWrites.free++;
      this.#wakeWriter();
    }
  }

  /** A stream that has ended on the server still delivers what arrived before; `tcp/closed` gives the reason. */
  #writeFailed(error: unknown): void {
    const ended = error instanceof ClientError && error.code === RpcErrorCode.notFound;
    if (!ended && !this.#over) this.fail(error as ClientError);
  }

  #nextAnswer(): Promise<void> {
    return new Promise((resolve) => {
      this.#wakeWriter = resolve;
    });
  }

  /** A lost report does no harm: the stream is lost with the same connection. */
  #report(bytes: number): void {
    if (this.#over || this.#peerEnded) return;
    this.#client.call('tcp/consumed', { streamId: this.#id, bytes }).catch(() => {});
  }
}
