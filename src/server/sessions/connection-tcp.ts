import { setImmediate as nextTurn } from 'node:timers/promises';
import { NetworkError } from '../../network/errors.ts';
import type { TcpConnector } from '../../network/tcp/tcp-connector.ts';
import { notFound, printable } from '../../protocol/errors.ts';
import { TCP_RESETS_PER_TURN, TCP_STREAMS_PER_CONNECTION, TCP_WINDOW_BYTES } from '../limits.ts';
import { TcpStream, type TcpStreamPeer } from './tcp-stream.ts';

interface ConnectionTcpOptions {
  /** Opens a paused socket. Rejects with NetworkError. */
  readonly connect: TcpConnector['connect'];
  /** Called for each stream. Throws NetworkError to refuse it, and returns a function to call at its end. */
  enter(): () => void;
  readonly maxStreams?: number;
}

/** A stream that is open on the server. Nothing of it is sent before `start` is called. */
interface OpenedStream {
  readonly address: string;
  readonly start: () => void;
}

/** A stream that is being opened or open. */
interface Entry {
  /** Aborts while the stream is being opened. */
  readonly opening: AbortController;
  stream: TcpStream | null;
  /** Whether the client has sent `tcp/close`. The id is free a moment later. */
  isClosing: boolean;
  /** Called when the id is free again. */
  readonly endWaiters: (() => void)[];
}

/** The TCP streams of one connection. They end with it: sockets are reset, so that no peer takes that for a regular end. */
export class ConnectionTcp {
  readonly #peer: TcpStreamPeer;
  readonly #options: ConnectionTcpOptions;
  readonly #entries = new Map<string, Entry>();
  #inputEnded = false;
  #isAborted = false;
  #chunksSent = 0;
  #idleWaiters: (() => void)[] = [];

  constructor(peer: TcpStreamPeer, options: ConnectionTcpOptions) {
    this.#peer = peer;
    this.#options = options;
  }

  /** Opens a stream. The id is taken until `tcp/closed` is sent. Rejects with NetworkError. */
  async connect(
    streamId: string,
    host: string,
    port: number,
    windowBytes: number = TCP_WINDOW_BYTES,
  ): Promise<OpenedStream> {
    if (this.#isAborted) throw new NetworkError('failed', `tcp/connect: ${CONNECTION_ENDED}`);
    const { maxStreams = TCP_STREAMS_PER_CONNECTION } = this.#options;
    if (this.#entries.has(streamId)) {
      throw new NetworkError('invalid', `tcp/connect: streamId \`${printable(streamId)}\` is in use`);
    }
    if (this.#entries.size >= maxStreams) {
      throw new NetworkError('limit', `${maxStreams} TCP streams are open on this connection, the maximum`);
    }
    const leave = this.#options.enter();
    const entry: Entry = { opening: new AbortController(), stream: null, isClosing: false, endWaiters: [] };
    this.#entries.set(streamId, entry);
    const ended = () => {
      leave();
      this.#entries.delete(streamId);
      for (const waiter of entry.endWaiters) waiter();
      if (this.#entries.size === 0) for (const idle of this.#idleWaiters.splice(0)) idle();
    };
    try {
      const stream = new TcpStream(streamId, windowBytes, this.#peer, {
        sent: () => {
          this.#chunksSent++;
        },
        ended,
      });
      const { socket, address } = await this.#options.connect(
        host,
        port,
        stream.reader,
        entry.opening.signal,
      );
      entry.stream = stream;
      stream.open(socket);
      if (entry.opening.signal.aborted) reset(entry, (entry.opening.signal.reason as Error).message);
      return { address, start: () => this.#start(stream) };
    } catch (error) {
      ended();
      throw error;
    }
  }

  /**
   * Sends bytes to the peer. The promise, if there is one, resolves when the system has taken them. `onWait` is called before it is
   * returned. Throws RpcError when there is no such stream.
   */
  write(streamId: string, bytes: Uint8Array, onWait: () => void): Promise<void> | undefined {
    return this.#get(streamId).write(bytes, onWait);
  }

  /**
   * Ends the sending side after the earlier writes. Resolves when the system has all bytes. Throws RpcError when there is no such
   * stream.
   */
  end(streamId: string): Promise<void> {
    return this.#get(streamId).end();
  }

  /** Resets the stream, or stops opening it. Resolves when the id is free again. */
  async close(streamId: string): Promise<void> {
    const entry = this.#entries.get(streamId);
    if (entry === undefined) return;
    const ended = new Promise<void>((resolve) => entry.endWaiters.push(resolve));
    entry.isClosing = true;
    reset(entry, 'the client closed the stream');
    await ended;
  }

  /** The client has used `bytes` of what it got: the window grows by them. */
  consumed(streamId: string, bytes: number): void {
    this.#entries.get(streamId)?.stream?.consumed(bytes);
  }

  /** Pauses or resumes reading from the peers, depending on whether bulk data waits. */
  setPaused(paused: boolean): void {
    if (!paused) for (const { stream } of this.#entries.values()) stream?.resume();
  }

  /** Number of chunks that were sent. It shows progress. */
  get chunksSent(): number {
    return this.#chunksSent;
  }

  /**
   * The client has ended its side of the connection, and with it the sending side of its streams. Resolves when every stream has ended.
   * A stream whose window is used up is reset, because the client can no longer enlarge the window.
   */
  async finish(): Promise<void> {
    this.#inputEnded = true;
    for (const { stream } of this.#entries.values()) stream?.finish();
    if (this.#entries.size > 0) await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
  }

  /** Refuses further streams, and resets every stream: some now and some in each later turn of the event loop, so that hundreds do not block it. */
  async abortAll(): Promise<void> {
    this.#isAborted = true;
    for (const [index, entry] of [...this.#entries.values()].entries()) {
      if (index > 0 && index % TCP_RESETS_PER_TURN === 0) await nextTurn();
      reset(entry, CONNECTION_ENDED);
    }
  }

  #start(stream: TcpStream): void {
    stream.resume();
    if (this.#inputEnded) stream.finish();
  }

  #get(streamId: string): TcpStream {
    const { stream = null, isClosing = false } = this.#entries.get(streamId) ?? {};
    if (isClosing) throw notFound(`TCP stream \`${printable(streamId)}\` was closed with tcp/close`);
    if (stream !== null) return stream;
    throw notFound(`no TCP stream \`${printable(streamId)}\` is open on this connection; it may have ended`);
  }
}

const CONNECTION_ENDED = 'the connection of the client has ended';

function reset({ opening, stream }: Entry, reason: string): void {
  if (stream === null) opening.abort(new Error(reason));
  else stream.reset(reason);
}
