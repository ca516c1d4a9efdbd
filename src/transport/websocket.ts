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

/** Sizes and times of a websocket. */
export interface WebSocketOptions {
  readonly maxMessageBytes: number;
  /** 0 sends no pings. */
  readonly pingIntervalMs: number;
  /** A peer from which nothing arrives for this long, though it is pinged, is dropped. 0 never drops. */
  readonly peerSilenceTimeoutMs: number;
}

/** Turns HTTP upgrade requests into transports. It does not judge requests: the caller has done so. */
export class WebSocketUpgrader {
  readonly #server: WebSocketServer;
  readonly #options: WebSocketOptions;

  constructor(options: WebSocketOptions) {
    this.#options = options;
    this.#server = createUpgradeServer(options.maxMessageBytes);
  }

  /** Completes the handshake; a request that is not a valid one is answered with an HTTP error and yields nothing. */
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

/** Completes handshakes for others, without compression; pings are answered by whoever owns the socket. */
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

/** Opens a client connection to `ws:`, `wss:` or `unix:///PATH`. Rejects when the server is not reached or refuses, or `signal` aborts. */
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

/** One websocket as a transport: a text frame per message out, text or binary frames in. */
export class WebSocketTransport implements Transport {
  readonly #ws: WebSocket;
  readonly #serverSocket: Duplex | null;
  readonly #keepalive: Keepalive;
  /** Small messages that leave at the end of this turn. */
  #batch: (string | Uint8Array)[] = [];
  #events: TransportEvents | null = null;
  #failure: string | null = null;
  #pendingBytes = 0;
  #congested = false;
  #closing = false;
  #closed = false;

  /** `below` is what the websocket runs on, and at which end of it, as far as that is known. */
  constructor(
    ws: WebSocket,
    options: WebSocketOptions,
    below: { readonly socket: Duplex; readonly isServer: boolean } | null = null,
  ) {
    const serverSocket = below?.isServer ? below.socket : null;
    this.#ws = ws;
    this.#serverSocket = serverSocket;
    ws.pause();
    ws.on('error', (error) => {
      this.#failure = error.message;
    });
    this.#keepalive = new Keepalive(ws, options, below?.socket ?? null);
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
    return this.#hasRoom();
  }

  sendPart(part: Uint8Array, last: boolean, released?: () => void): boolean {
    if (this.#ws.readyState !== WebSocket.OPEN) return true;
    return this.#sendFrame(part, last ? TEXT_FRAME : TEXT_FRAME_WITH_MORE, released);
  }

  /** Sends a message as a binary frame, which servers accept as well. */
  sendBinary(message: Uint8Array): void {
    this.#ws.send(message, { binary: true, compress: false });
  }

  /** Cuts the connection without a word, as a lost network does. */
  drop(): void {
    this.#ws.terminate();
  }

  probe(): void {
    this.#keepalive.probe();
  }

  setReceiving(receiving: boolean): void {
    // The peer's answer to a close must be read.
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

  /** Comes between the socket and the websocket, which gets what is no text and what it has to refuse. */
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
    // What a paused socket still holds at its end would go to the library, past the intake.
    socket.prependListener('close', () => {
      const rest: Buffer | null = socket.read();
      if (rest !== null) parser.take(rest);
    });
    readDirectly(socket, parser);
  }

  /** What comes is kept below, in bounds; the end of the connection is noticed all the same. */
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
    return this.#hasRoom();
  }

  /** Congestion ends with `drained` and not before: who was told to wait waits for that. */
  #hasRoom(): boolean {
    this.#congested ||= this.#pendingBytes > SEND_WINDOW_BYTES;
    return !this.#congested;
  }

  /** Small messages of one turn leave together: what answers a batch of requests is a batch. */
  #enqueue(message: string | Uint8Array): void {
    if (this.#batch.length === 0) process.nextTick(() => this.#flush());
    this.#batch.push(message);
  }

  #flush(): void {
    if (this.#batch.length === 0) return;
    const messages = this.#batch;
    this.#batch = [];
    // Nothing may stand behind the close frame that answers the peer's.
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
      // What comes behind a close is not looked at.
      isUtf8: () => this.#closing || message.isUtf8(),
      end: () => {
        if (!this.#closing) message.end();
      },
    };
  }

  /** Where addresses are limited there may be no memory for a large message: that ends this connection and no other. */
  #add(message: LargeMessage, piece: Uint8Array): void {
    try {
      message.add(piece);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.close({ code: CloseCode.tryAgainLater, reason: 'there is no memory for the message' });
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
 * Answers pings, pings at an interval and drops a peer that stays silent. Any frame from the peer counts as a sign of life, and any part of
 * one, behind which its pong may have to wait for minutes; while the intake is paused nothing can be heard and the peer is given credit.
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
      // An idle peer is heard only when it is pinged, so it must be before its time is up.
      const answerTimeMs = this.#silenceMs > 0 ? this.#silenceMs / 2 : options.pingIntervalMs;
      this.#timer = setInterval(() => this.#tick(), Math.min(options.pingIntervalMs, answerTimeMs));
      this.#timer.unref();
    }
  }

  received(): void {
    this.#lastReceivedAt = uptimeMs();
  }

  /** Asks the peer for a sign of life and drops it if none comes in time. Who cannot be heard because the intake is paused is spared. */
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

  /** Its bytes are not to count a second time. */
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

/** Sockets count what comes through them; not every stream does. */
type CountingStream = Duplex & { readonly bytesRead?: number };

const UNIX_SCHEME = 'unix://';
const TEXT_FRAME = { binary: false, compress: false, fin: true };
const TEXT_FRAME_WITH_MORE = { ...TEXT_FRAME, fin: false };
const MAX_REASON_BYTES = 123;

/** A close frame has room for 123 bytes of reason. */
export function truncateReason(reason: string): string {
  const bytes = Buffer.from(reason);
  if (bytes.length <= MAX_REASON_BYTES) return reason;
  return bytes
    .subarray(0, MAX_REASON_BYTES)
    .toString()
    .replace(/\uFFFD+$/, '');
}
