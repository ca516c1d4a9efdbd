import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { connect, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { WebSocket } from 'ws';
import {
  BinaryMessageError,
  encodeBinaryHead,
  isBinaryMessage,
  splitBinaryMessage,
} from './binary-message.ts';
import { BinaryMessageReader, LargeBinaryFrame } from './binary-message-reader.ts';
import {
  encodeMaskedFrame,
  encodeTextFrames,
  type FrameKind,
  frameHeader,
  WHOLE_BINARY,
  WHOLE_TEXT,
} from './frame-encoder.ts';
import type { CountingStream, FrameStream } from './frame-stream.ts';
import { BufferedMessage } from './growable-buffer.ts';
import { Keepalive, type KeepaliveOptions } from './keepalive.ts';
import { BATCHED_MESSAGE_BYTES, LARGE_MESSAGE_BYTES, SEND_WINDOW_BYTES } from './limits.ts';
import { openWebSocket, type WebSocketConnectOptions } from './open-websocket.ts';
import {
  type BytesMessage,
  CloseCode,
  type CloseReason,
  type LargeMessage,
  type Transport,
  type TransportEvents,
} from './transport.ts';
import { type UnfinishedMessage, UnfinishedMessages } from './unfinished-messages.ts';
import { UpgradeServer } from './upgrade-server.ts';

/** Limits and timeouts of a websocket. */
export interface WebSocketOptions extends KeepaliveOptions {
  readonly maxMessageBytes: number;
}

/** Limits of the websockets of a server. */
export interface WebSocketServerOptions extends WebSocketOptions {
  /** Bytes of all messages together that have begun to arrive and are not complete. */
  readonly maxUnfinishedBytes: number;
}

/** Turns HTTP upgrade requests into transports. The caller has authorized the requests. */
export class WebSocketUpgrader {
  readonly #server: UpgradeServer;
  readonly #options: WebSocketOptions;
  readonly #unfinished: UnfinishedMessages;

  constructor(options: WebSocketServerOptions) {
    const { maxMessageBytes, maxUnfinishedBytes } = options;
    this.#options = options;
    this.#server = new UpgradeServer(maxMessageBytes);
    // A single message of the largest size must always fit.
    this.#unfinished = new UnfinishedMessages(Math.max(maxUnfinishedBytes, maxMessageBytes));
  }

  /**
   * Completes the handshake. An invalid request gets an HTTP error and yields no transport. `subprotocol` is one that the client has
   * offered.
   */
  upgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    accepted: (transport: Transport) => void,
    subprotocol?: string,
  ): void {
    this.#server.upgrade(
      request,
      socket,
      head,
      (ws, stream) =>
        accepted(new WebSocketTransport(ws, this.#options, { stream, unfinished: this.#unfinished })),
      undefined,
      subprotocol,
    );
  }
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
    (ws, sizes, socket) => new WebSocketTransport(ws, sizes, { socket }),
  );
}

/** The connection below a websocket: the socket of a client, if it is known, or the frame stream of a server. */
type Underlying =
  | { readonly socket: CountingStream | null }
  | { readonly stream: FrameStream; readonly unfinished: UnfinishedMessages };

/**
 * A websocket as a transport. Sends messages as text frames, and those with bytes as binary ones. Text is accepted in both. Large frames go
 * to the socket past the library, which would mask or copy each byte.
 */
export class WebSocketTransport implements Transport {
  readonly #ws: WebSocket;
  /** Null on the client's end. */
  readonly #stream: FrameStream | null;
  readonly #unfinished: UnfinishedMessages | null;
  /** The socket of a client, if it is known. */
  readonly #socket: CountingStream | null;
  readonly #keepalive: Keepalive;
  /** Small messages that are sent at the end of this turn. */
  #batch: (string | Uint8Array)[] = [];
  #events: TransportEvents | null = null;
  /** The large message that is arriving. */
  #arriving: { readonly message: LargeMessage; readonly entry: UnfinishedMessage } | null = null;
  #failure: string | null = null;
  #pendingBytes = 0;
  #congested = false;
  #isBetweenParts = false;
  #isNewPeer = true;
  #acceptsBytes = false;
  #closing = false;
  #closed = false;

  constructor(ws: WebSocket, options: WebSocketOptions, underlying: Underlying = { socket: null }) {
    this.#ws = ws;
    const isServer = 'stream' in underlying;
    this.#stream = isServer ? underlying.stream : null;
    this.#unfinished = isServer ? underlying.unfinished : null;
    this.#socket = isServer ? null : underlying.socket;
    if (!isServer) ws.pause();
    ws.on('error', (error) => {
      this.#failure ??= error.message;
    });
    const peer = isServer ? underlying.stream : clientActivity(ws, underlying.socket);
    this.#keepalive = new Keepalive(ws, options, peer);
  }

  open(events: TransportEvents): void {
    this.#events = events;
    const ws = this.#ws;
    ws.on('message', (data: Buffer, isBinary) => this.#receive(data, isBinary));
    ws.on('close', (code, reason) => this.#ended(code, reason.toString()));
    if (ws.readyState === WebSocket.CLOSED) setImmediate(() => this.#ended(CloseCode.abnormal, ''));
    else if (this.#stream === null) ws.resume();
    else {
      this.#stream.open({
        message: (bytes, isBinary) => this.#receive(bytes, isBinary),
        begin: (expectedBytes, isBinary) => this.#begin(expectedBytes, isBinary),
        tooLarge: (maxBytes) => this.#refuseTooLarge(maxBytes),
      });
    }
  }

  peerInitialized(): void {
    this.#isNewPeer = false;
    this.#stream?.trustPeer();
  }

  send(message: string | Uint8Array, released?: () => void): boolean {
    if (this.#ws.readyState !== WebSocket.OPEN) return true;
    const bytes = message.length;
    if (this.#stream === null || bytes > BATCHED_MESSAGE_BYTES) {
      return this.#sendFrame([message], WHOLE_TEXT, released);
    }
    this.#pendingBytes += bytes;
    this.#enqueue(message);
    return this.#hasCapacity();
  }

  sendPart(part: Uint8Array, last: boolean, released?: () => void, isBinary = false): boolean {
    if (this.#ws.readyState !== WebSocket.OPEN) return true;
    const isFirst = !this.#isBetweenParts;
    this.#isBetweenParts = !last;
    return this.#sendFrame([part], { isBinary, isFirst, isLast: last }, released);
  }

  sendBytes({ text, bytes }: BytesMessage, released?: () => void): boolean {
    if (this.#ws.readyState !== WebSocket.OPEN) return true;
    return this.#sendFrame([encodeBinaryHead(text), bytes], WHOLE_BINARY, released);
  }

  acceptBytes(): void {
    this.#acceptsBytes = true;
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

  confirmReceived(sentBeforeMs: number, confirmed: () => void): void {
    this.#keepalive.confirmReceived(sentBeforeMs, confirmed);
  }

  unref(): void {
    if (this.#socket instanceof Socket) this.#socket.unref();
  }

  setReceiving(receiving: boolean): void {
    // The peer's answer to a close frame must be read.
    const isOpen = receiving || this.#closing;
    if (this.#stream !== null) this.#stream.setReceiving(isOpen);
    else if (isOpen) this.#ws.resume();
    else this.#ws.pause();
  }

  close(reason: CloseReason): void {
    if (this.#closing || this.#ws.readyState === WebSocket.CLOSED) return;
    this.#flush();
    this.#closing = true;
    this.#endArriving();
    this.setReceiving(true);
    this.#ws.close(reason.code, truncateReason(reason.reason));
  }

  #sendFrame(parts: readonly (string | Uint8Array)[], kind: FrameKind, released?: () => void): boolean {
    this.#flush();
    const bytes = parts.reduce((sum, { length }) => sum + length, 0);
    this.#pendingBytes += bytes;
    const sent = () => {
      released?.();
      this.#sent(bytes);
    };
    if (this.#stream !== null) {
      const payload = parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part));
      const length = payload.reduce((sum, part) => sum + part.length, 0);
      this.#stream.writeFrames([frameHeader(length, kind), ...payload], sent);
    } else if (this.#socket !== null) {
      const frame = encodeMaskedFrame(kind, parts);
      this.#socket.write(frame.bytes, () => {
        frame.release();
        sent();
      });
    } else {
      const { isBinary: binary, isLast } = kind;
      for (const [index, part] of parts.entries()) {
        const isEnd = index === parts.length - 1;
        this.#ws.send(part, { binary, compress: false, fin: isEnd && isLast }, isEnd ? sent : undefined);
      }
    }
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
    this.#stream?.writeFrames([encodeTextFrames(messages)], () => this.#sent(bytes));
  }

  #ended(code: number, reason: string): void {
    this.#closed = true;
    this.#endArriving();
    this.#keepalive.stop();
    this.#events?.closed({ code, reason: reason || this.#failure || '' });
  }

  #receive(data: Buffer, isBinary: boolean): void {
    this.#keepalive.received();
    if (this.#closing) return;
    if (isBinary && this.#acceptsBytes && isBinaryMessage(data)) this.#receiveBytes(data);
    else if (isBinary && !isUtf8(data)) this.#events?.undecodable(NOT_UTF8);
    else if (data.length >= LARGE_MESSAGE_BYTES && this.#events?.largeMessage !== undefined) {
      const message = this.#events.largeMessage(data.length);
      message.add(data);
      message.end();
    } else this.#events?.message(data.toString());
  }

  #receiveBytes(data: Buffer): void {
    try {
      const { text, bytes } = splitBinaryMessage(data);
      // The bytes of a server's frame are valid during the call only.
      this.#events?.bytesMessage?.({ text, bytes: this.#stream === null ? bytes : Buffer.from(bytes) });
    } catch (error) {
      if (!(error instanceof BinaryMessageError)) throw error;
      this.#events?.undecodable(error.message);
    }
  }

  #largeText(expectedBytes: number): LargeMessage {
    const events = this.#events;
    return (
      events?.largeMessage?.(expectedBytes) ??
      new BufferedMessage(expectedBytes, (bytes) => events?.message(bytes.toString()))
    );
  }

  #largeBinary(expectedBytes: number): LargeMessage {
    return new LargeBinaryFrame((isMessage) =>
      isMessage
        ? new BinaryMessageReader(expectedBytes, {
            bytesMessage: (message) => this.#events?.bytesMessage?.(message),
            undecodable: (reason) => this.#events?.undecodable(reason),
          })
        : this.#largeText(expectedBytes),
    );
  }

  #begin(expectedBytes: number, isBinary: boolean): LargeMessage {
    const events = this.#events;
    const message =
      isBinary && this.#acceptsBytes ? this.#largeBinary(expectedBytes) : this.#largeText(expectedBytes);
    const entry = this.#unfinished!.begin(() => this.close(TOO_MUCH_UNFINISHED));
    // Data after a close is not checked, and neither is the rest of a message that was refused.
    const arriving = this.#closing ? null : { message, entry };
    this.#arriving = arriving;
    if (arriving === null) entry.end();
    const isWanted = () => arriving !== null && this.#arriving === arriving;
    return {
      add: (piece) => {
        this.#keepalive.received();
        if (isWanted()) this.#add(message, piece);
        if (isWanted()) entry.add(piece.length);
      },
      isUtf8: () => !isWanted() || message.isUtf8(),
      end: () => {
        if (!isWanted()) return;
        this.#endArriving();
        if (isBinary && !message.isUtf8()) events?.undecodable(NOT_UTF8);
        else message.end();
      },
    };
  }

  #endArriving(): void {
    this.#arriving?.entry.end();
    this.#arriving = null;
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

  #refuseTooLarge(maxBytes: number): void {
    this.#failure ??= this.#isNewPeer
      ? `a message has more than ${maxBytes} bytes, the limit before initialize`
      : `a message has more than ${maxBytes} bytes, the limit of this server`;
    this.close({ code: CloseCode.messageTooBig, reason: this.#failure });
  }

  #sent(bytes: number): void {
    this.#pendingBytes -= bytes;
    if (!this.#congested || this.#pendingBytes > SEND_WINDOW_BYTES / 2) return;
    this.#congested = false;
    if (!this.#closed) this.#events?.drained();
  }
}

/** What a client knows about the bytes of its server. */
export function clientActivity(
  ws: WebSocket,
  socket: CountingStream | null,
): ConstructorParameters<typeof Keepalive>[2] {
  return {
    get bytesRead() {
      return socket?.bytesRead;
    },
    get isReading() {
      return !ws.isPaused;
    },
  };
}

const UNIX_SCHEME = 'unix://';
const NOT_UTF8 = 'a binary frame is not valid UTF-8';
const TOO_MUCH_UNFINISHED: CloseReason = {
  code: CloseCode.tryAgainLater,
  reason: 'too many bytes of unfinished messages (maxUnfinishedBytes); this message was the oldest',
};
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
