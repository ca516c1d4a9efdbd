import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { WebSocket, WebSocketServer } from 'ws';
import { uptimeMs } from '../base/uptime.ts';
import { readDirectly } from './direct-reads.ts';
import { BufferedMessage } from './growable-buffer.ts';
import {
  BATCHED_MESSAGE_BYTES,
  LARGE_MESSAGE_BYTES,
  PONG_WINDOW_BYTES,
  PROBE_TIMEOUT_MS,
  SEND_WINDOW_BYTES,
} from './limits.ts';
import { CLOSE_TIMEOUT_OPTION, openWebSocket, type WebSocketConnectOptions } from './open-websocket.ts';
import { encodeTextFrames } from './text-frame-encoder.ts';
import { TextFrameParser } from './text-frame-parser.ts';
import {
  CloseCode,
  type CloseReason,
  type LargeMessage,
  type Transport,
  type TransportEvents,
} from './transport.ts';

/** Limits and timeouts of a websocket. */
export interface WebSocketOptions {
  readonly maxMessageBytes: number;
  /** 0 disables pings. */
  readonly pingIntervalMs: number;
  /** A peer that sends nothing for this long, despite pings, is dropped. 0 disables it. */
  readonly peerSilenceTimeoutMs: number;
}

/** Turns HTTP upgrade requests into transports. The caller has authorized the requests. */
export class WebSocketUpgrader {
  readonly #server: WebSocketServer;
  readonly #options: WebSocketOptions;

  constructor(options: WebSocketOptions) {
    this.#options = options;
    this.#server = createUpgradeServer(options.maxMessageBytes);
  }

  /** Completes the handshake. An invalid request gets an HTTP error and yields no transport. */
  upgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    accepted: (transport: Transport) => void,
  ): void {
    this.#server.handleUpgrade(request, socket, head, (ws) =>
      accepted(new WebSocketTransport(ws, this.#options, { socket, isServer: true })),
    );
  }
}

/** Creates a server that completes handshakes, without compression. The owner of the socket answers pings. */
export function createUpgradeServer(maxMessageBytes: number): WebSocketServer {
  return new WebSocketServer({
    noServer: true,
    clientTracking: false,
    autoPong: false,
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
    handleProtocols: () => false,
    ...CLOSE_TIMEOUT_OPTION,
  });
}

/**
 * Opens a client connection to `ws:`, `wss:` or `unix:///PATH`. Rejects when the server cannot be reached or
 * refuses, or `signal` aborts.
 */
export function connectWebSocket(
  url: string,
  options: WebSocketConnectOptions = {},
): Promise<WebSocketTransport> {
  const socketPath = url.startsWith(UNIX_SCHEME) ? url.slice(UNIX_SCHEME.length) : null;
  const socketOptions = socketPath === null ? {} : { createConnection: () => connect(socketPath) };
  return openWebSocket(
    socketPath === null ? url : 'ws://localhost/',
    options,
    socketOptions,
    (ws, sizes, socket) => new WebSocketTransport(ws, sizes, { socket, isServer: false }),
  );
}

/** A websocket as a transport. Sends each message as a text frame; receives text and binary frames. */
export class WebSocketTransport implements Transport {
  readonly #ws: WebSocket;
  readonly #serverSocket: Duplex | null;
  readonly #keepalive: Keepalive;
  /** Small messages that are sent at the end of this turn. */
  #batch: (string | Uint8Array)[] = [];
  #events: TransportEvents | null = null;
  #failure: string | null = null;
  #pendingBytes = 0;
  #congested = false;
  #closing = false;
  #closed = false;

  /** `underlying` is the socket of the websocket and its role, if known. */
  constructor(
    ws: WebSocket,
    options: WebSocketOptions,
    underlying: { readonly socket: Duplex; readonly isServer: boolean } | null = null,
  ) {
    const serverSocket = underlying?.isServer ? underlying.socket : null;
    this.#ws = ws;
    this.#serverSocket = serverSocket;
    ws.pause();
    ws.on('error', (error) => {
      this.#failure = error.message;
    });
    this.#keepalive = new Keepalive(ws, options, underlying?.socket ?? null);
    if (serverSocket !== null) this.#takeTexts(serverSocket, options.maxMessageBytes);
  }

  open(events: TransportEvents): void {
    this.#events = events;
    const ws = this.#ws;
    ws.on('message', (data: Buffer, isBinary) => this.#receive(data, isBinary));
    ws.on('close', (code, reason) => this.#ended(code, reason.toString()));
    if (ws.readyState === WebSocket.CLOSED) setImmediate(() => this.#ended(CloseCode.abnormal, ''));
    else ws.resume();
  }

  send(message: string | Uint8Array, released?: () => void): boolean {
    if (this.#ws.readyState !== WebSocket.OPEN) return true;
    const bytes = message.length;
    if (this.#serverSocket === null || bytes > BATCHED_MESSAGE_BYTES) {
      return this.#sendFrame(message, TEXT_FRAME, released);
    }
    this.#pendingBytes += bytes;
    this.#enqueue(message);
    return this.#hasCapacity();
  }

  sendPart(part: Uint8Array, last: boolean, released?: () => void): boolean {
    if (this.#ws.readyState !== WebSocket.OPEN) return true;
    return this.#sendFrame(part, last ? TEXT_FRAME : TEXT_FRAME_WITH_MORE, released);
  }

  /** Sends a message as a binary frame, which servers accept as well. */
  sendBinary(message: Uint8Array): void {
    this.#ws.send(message, { binary: true, compress: false });
  }

  /** Cuts the connection without a close handshake, like a lost network. */
  drop(): void {
    this.#ws.terminate();
  }

  probe(): void {
    this.#keepalive.probe();
  }

  setReceiving(receiving: boolean): void {
    // The peer's answer to a close frame must be read.
    if (receiving || this.#closing) this.#ws.resume();
    else this.#pause();
  }

  close(reason: CloseReason): void {
    if (this.#closing || this.#ws.readyState === WebSocket.CLOSED) return;
    this.#flush();
    this.#closing = true;
    this.#ws.resume();
    this.#ws.close(reason.code, truncateReason(reason.reason));
  }

  /**
   * Inserts the parser between the socket and the websocket library. The library gets only other frames and
   * protocol violations.
   */
  #takeTexts(socket: Duplex, maxMessageBytes: number): void {
    const [library] = socket.listeners('data');
    if (library === undefined) return;
    const parser = new TextFrameParser(maxMessageBytes, {
      text: (bytes) => this.#receive(bytes, false),
      begin: (expectedBytes) => this.#beginLarge(expectedBytes),
      pass: (bytes) => library.call(socket, bytes),
    });
    socket.off('data', library as () => void);
    socket.on('data', (chunk: Buffer) => parser.take(chunk));
    // Without this, bytes that a paused socket still holds at its end would bypass the parser.
    socket.prependListener('close', () => {
      for (let rest: Buffer | null = socket.read(); rest !== null; rest = socket.read()) parser.take(rest);
    });
    readDirectly(socket, parser);
  }

  /**
   * The socket buffers what arrives, up to its high-water mark. `read(0)` makes it notice the end of the
   * connection.
   */
  #pause(): void {
    this.#ws.pause();
    this.#serverSocket?.read(0);
  }

  #sendFrame(data: string | Uint8Array, options: typeof TEXT_FRAME, released?: () => void): boolean {
    this.#flush();
    const bytes = data.length;
    this.#pendingBytes += bytes;
    this.#ws.send(data, options, () => {
      released?.();
      this.#sent(bytes);
    });
    return this.#hasCapacity();
  }

  /** Congestion lasts until `drained`, because the caller waits for that. */
  #hasCapacity(): boolean {
    this.#congested ||= this.#pendingBytes > SEND_WINDOW_BYTES;
    return !this.#congested;
  }

  /** Sends small messages of one turn together, so that a batch of requests gets a batch of responses. */
  #enqueue(message: string | Uint8Array): void {
    if (this.#batch.length === 0) process.nextTick(() => this.#flush());
    this.#batch.push(message);
  }

  #flush(): void {
    if (this.#batch.length === 0) return;
    const messages = this.#batch;
    this.#batch = [];
    // Nothing may follow the close frame that answers the peer's.
    if (this.#ws.readyState !== WebSocket.OPEN) return;
    const bytes = messages.reduce((sum, message) => sum + message.length, 0);
    this.#serverSocket?.write(encodeTextFrames(messages), () => this.#sent(bytes));
  }

  #ended(code: number, reason: string): void {
    this.#closed = true;
    this.#keepalive.stop();
    this.#events?.closed({ code, reason: reason || this.#failure || '' });
  }

  #receive(data: Buffer, isBinary: boolean): void {
    this.#keepalive.received();
    if (this.#closing) return;
    if (isBinary && !isUtf8(data)) this.#events?.undecodable('a binary frame is not valid UTF-8');
    else if (data.length >= LARGE_MESSAGE_BYTES && this.#events?.largeMessage !== undefined) {
      const message = this.#events.largeMessage(data.length);
      message.add(data);
      message.end();
    } else this.#events?.message(data.toString());
  }

  #beginLarge(expectedBytes: number): LargeMessage {
    const events = this.#events;
    const message =
      events?.largeMessage?.(expectedBytes) ??
      new BufferedMessage(expectedBytes, (bytes) => events?.message(bytes.toString()));
    return {
      add: (piece) => {
        this.#keepalive.received();
        if (!this.#closing) this.#add(message, piece);
      },
      // Data after a close is not checked.
      isUtf8: () => this.#closing || message.isUtf8(),
      end: () => {
        if (!this.#closing) message.end();
      },
    };
  }

  /** Adds a chunk. Where address space is limited, a large message may not fit: then only this connection ends. */
  #add(message: LargeMessage, piece: Uint8Array): void {
    try {
      message.add(piece);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.close({ code: CloseCode.tryAgainLater, reason: 'not enough memory for the message' });
    }
  }

  #sent(bytes: number): void {
    this.#pendingBytes -= bytes;
    if (!this.#congested || this.#pendingBytes > SEND_WINDOW_BYTES / 2) return;
    this.#congested = false;
    if (!this.#closed) this.#events?.drained();
  }
}

/**
 * Answers pings, sends pings at an interval, and drops a silent peer. Any received bytes count as a sign of life,
 * because a pong may wait for minutes behind a large frame. While receiving is paused the peer cannot be checked
 * and is kept.
 */
export class Keepalive {
  readonly #ws: WebSocket;
  readonly #socket: CountingStream | null;
  readonly #silenceMs: number;
  #timer: NodeJS.Timeout | null = null;
  #probe: NodeJS.Timeout | null = null;
  #lastReceivedAt = uptimeMs();
  #bytesSeen: number | undefined;

  constructor(ws: WebSocket, options: WebSocketOptions, socket: CountingStream | null) {
    this.#ws = ws;
    this.#socket = socket;
    this.#bytesSeen = socket?.bytesRead;
    this.#silenceMs = options.peerSilenceTimeoutMs;
    ws.on('ping', (data) => {
      this.#receivedControl();
      if (ws.bufferedAmount <= PONG_WINDOW_BYTES) ws.pong(data);
    });
    ws.on('pong', () => this.#receivedControl());
    if (options.pingIntervalMs > 0) {
      // An idle peer sends only pongs, so it must be pinged before its time is up.
      const answerTimeMs = this.#silenceMs > 0 ? this.#silenceMs / 2 : options.pingIntervalMs;
      this.#timer = setInterval(() => this.#tick(), Math.min(options.pingIntervalMs, answerTimeMs));
      this.#timer.unref();
    }
  }

  received(): void {
    this.#lastReceivedAt = uptimeMs();
  }

  /** Pings the peer and drops it if nothing arrives in time. A peer is kept while receiving is paused. */
  probe(): void {
    if (this.#probe !== null || this.#ws.readyState !== WebSocket.OPEN) return;
    this.#checkBytesRead();
    const askedAt = uptimeMs();
    this.#ws.ping();
    this.#probe = setTimeout(() => {
      this.#probe = null;
      this.#checkBytesRead();
      if (this.#lastReceivedAt < askedAt && !this.#ws.isPaused) this.#ws.terminate();
    }, PROBE_TIMEOUT_MS);
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    if (this.#probe !== null) clearTimeout(this.#probe);
  }

  /** Counts the bytes of a control frame once. */
  #receivedControl(): void {
    this.#checkBytesRead();
    this.received();
  }

  #checkBytesRead(): void {
    const bytesRead = this.#socket?.bytesRead;
    if (bytesRead === this.#bytesSeen) return;
    this.#bytesSeen = bytesRead;
    this.received();
  }

  #tick(): void {
    this.#checkBytesRead();
    if (this.#ws.isPaused) this.received();
    const silentMs = uptimeMs() - this.#lastReceivedAt;
    if (this.#silenceMs > 0 && silentMs > this.#silenceMs) {
      this.#ws.terminate();
    } else if (this.#ws.readyState === WebSocket.OPEN) {
      this.#ws.ping();
    }
  }
}

/** Sockets count the bytes they read; other streams may not. */
type CountingStream = Duplex & { readonly bytesRead?: number };

const UNIX_SCHEME = 'unix://';
const TEXT_FRAME = { binary: false, compress: false, fin: true };
const TEXT_FRAME_WITH_MORE = { ...TEXT_FRAME, fin: false };
const MAX_REASON_BYTES = 123;

/** Shortens the reason to the 123 bytes that a close frame holds. */
export function truncateReason(reason: string): string {
  const bytes = Buffer.from(reason);
  if (bytes.length <= MAX_REASON_BYTES) return reason;
  return bytes
    .subarray(0, MAX_REASON_BYTES)
    .toString()
    .replace(/\uFFFD+$/, '');
}
