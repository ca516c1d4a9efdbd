import type { OnReadOpts } from 'node:net';
import { endedByReset, resetSocket } from '../../base/reset-socket.ts';
import type { LenientSocket } from '../../network/failed-writes.ts';
import { failureText } from '../../network/tcp/tcp-connector.ts';
import { encodeNotification } from '../../protocol/envelope.ts';
import { invalidRequest } from '../../protocol/errors.ts';
import { TCP_READ_BYTES } from '../limits.ts';
import { type ChunkSink, sendChunk } from './chunk-frames.ts';

/** The connection that a stream belongs to. */
export interface TcpStreamPeer extends ChunkSink {
  /** Whether bulk data should wait. */
  readonly saturated: boolean;
}

interface TcpStreamEvents {
  /** A chunk was sent to the client. */
  sent(): void;
  /** The stream is over. Called once, before `tcp/closed` is sent. */
  ended(): void;
}

/**
 * One TCP stream. It reads from its peer as far as the client's window and the connection allow. Notifications keep their order: data,
 * then `tcp/end` if the peer ended its side, and last `tcp/closed`, exactly once.
 */
export class TcpStream {
  /** Receives what the socket reads. All streams share the buffer: the bytes are encoded before the next read. */
  readonly reader: OnReadOpts = {
    buffer: () => (readBuffer ??= Buffer.allocUnsafeSlow(TCP_READ_BYTES)),
    callback: (length, buffer) => this.#received(buffer as Buffer, length),
  };
  readonly #id: string;
  readonly #peer: TcpStreamPeer;
  readonly #events: TcpStreamEvents;
  readonly #beforeChunk: Buffer;
  #socket: LenientSocket | null = null;
  #window: number;
  #sendingEnded = false;
  #inputEnded = false;
  #failure: string | null = null;
  /** Resolve the writes that wait for the peer. */
  readonly #waiting = new Set<() => void>();

  constructor(id: string, windowBytes: number, peer: TcpStreamPeer, events: TcpStreamEvents) {
    this.#id = id;
    this.#window = windowBytes;
    this.#peer = peer;
    this.#events = events;
    this.#beforeChunk = Buffer.from(
      `{"method":"tcp/data","params":{"streamId":${JSON.stringify(id)},"chunk":"`,
    );
  }

  /** Takes a connected and paused socket. */
  open(socket: LenientSocket): void {
    this.#socket = socket;
    // Finds out that the machine of a silent peer is gone.
    socket.setKeepAlive(true);
    socket.on('error', (error) => {
      this.#failure ??= failureText(error);
    });
    socket.once('end', () => this.#peerEnded(socket));
    socket.once('close', () => this.#closed());
    if (socket.destroyed) this.#closed();
  }

  #peerEnded(socket: LenientSocket): void {
    if (endedByReset(socket)) {
      this.#failure ??= failureText({ code: 'ECONNRESET' });
      socket.destroy();
    } else {
      this.#notify('tcp/end', {});
    }
  }

  /** Reads on, unless the window is used up or the client does not keep up. */
  resume(): void {
    if (this.#mayRead()) this.#socket?.resume();
  }

  consumed(bytes: number): void {
    this.#window += bytes;
    this.resume();
  }

  /** See {@link ConnectionTcp.write}. */
  write(bytes: Uint8Array, onWait: () => void): Promise<void> | undefined {
    if (this.#sendingEnded) throw invalidRequest('tcp/data: the sending side was ended with tcp/end');
    const socket = this.#socket!;
    let taken: () => void = () => {};
    socket.write(bytes, () => taken());
    if (socket.writableLength === 0) return undefined;
    onWait();
    return this.#untilTaken((resolve) => {
      taken = resolve;
    });
  }

  /** See {@link ConnectionTcp.end}. */
  end(): Promise<void> {
    this.#sendingEnded = true;
    return this.#untilTaken((taken) => this.#socket!.end(taken));
  }

  /** The client can send nothing more. */
  finish(): void {
    this.#inputEnded = true;
    void this.end();
    this.#resetIfStuck();
  }

  /** Ends the stream immediately, with an error for the client. */
  reset(reason: string): void {
    this.#failure ??= reason;
    if (this.#socket !== null) resetSocket(this.#socket);
  }

  /** Resolves when `start` has called back, or the stream is over. */
  #untilTaken(start: (taken: () => void) => void): Promise<void> {
    return new Promise((resolve) => {
      const taken = () => {
        this.#waiting.delete(taken);
        resolve();
      };
      this.#waiting.add(taken);
      start(taken);
    });
  }

  #received(buffer: Buffer, length: number): boolean {
    sendChunk(this.#peer, this.#beforeChunk, '', buffer.subarray(0, length));
    this.#window -= length;
    this.#events.sent();
    this.#resetIfStuck();
    return this.#mayRead();
  }

  #mayRead(): boolean {
    return this.#window > 0 && !this.#peer.saturated;
  }

  #resetIfStuck(): void {
    if (this.#inputEnded && this.#window <= 0)
      this.reset('the window is used up, and the client has ended its side of the connection');
  }

  #closed(): void {
    const { isBroken = false } = this.#socket ?? {};
    if (isBroken) this.#failure ??= 'the peer closed the connection';
    for (const taken of this.#waiting) taken();
    this.#events.ended();
    this.#notify('tcp/closed', { error: this.#failure });
  }

  #notify(method: 'tcp/end' | 'tcp/closed', params: object): void {
    this.#peer.sendBulk(Buffer.from(encodeNotification(method, { streamId: this.#id, ...params })));
  }
}

let readBuffer: Buffer | null = null;
