import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocket } from 'ws';
import { encodeMaskedFrame, WHOLE_BINARY } from './frame-encoder.ts';
import type { CountingStream, FrameStream } from './frame-stream.ts';
import { GrowableBuffer } from './growable-buffer.ts';
import { Keepalive } from './keepalive.ts';
import { QUEUED_FRAME_COST_BYTES, SEND_WINDOW_BYTES } from './limits.ts';
import { openWebSocket, type WebSocketConnectOptions } from './open-websocket.ts';
import { CloseCode, type CloseReason, type LargeMessage } from './transport.ts';
import { TurnCredit } from './turn-credit.ts';
import { type UnfinishedMessage, UnfinishedMessages } from './unfinished-messages.ts';
import { UpgradeServer } from './upgrade-server.ts';
import { clientActivity, truncateReason, type WebSocketOptions } from './websocket.ts';

/** Callbacks of a frame socket. No event comes before `open`, and none after `closed`. */
export interface FrameSocketEvents {
  /** A binary message. The receiver owns the bytes. */
  frame(bytes: Uint8Array): void;
  /** This many of the pending bytes are no longer buffered here: the system has them, or they are lost with the socket. */
  sent?(bytes: number): void;
  /** There is capacity again after `send` returned false. */
  drained(): void;
  /** The socket has ended. Called exactly once, for either side. */
  closed(reason: CloseReason): void;
}

/** Options of a frame socket. */
export interface FrameSocketOptions extends WebSocketOptions {
  /**
   * How to handle text messages: close the connection (default), ignore them, or accept them like binary messages.
   */
  readonly text?: 'refuse' | 'ignore' | 'accept';
}

/** Options of the frame sockets of a server. */
interface FrameSocketServerOptions extends FrameSocketOptions {
  /** Bytes of all messages together that have begun to arrive and are not complete. */
  readonly maxUnfinishedBytes: number;
}

/** The connection below a frame socket: a client's socket, or the frame stream of a server. */
type Underlying = { readonly socket: CountingStream } | ServerEnd;

interface ServerEnd {
  readonly stream: FrameStream;
  readonly unfinished: UnfinishedMessages;
  /** The credit of the tenant that the connection belongs to. */
  readonly credit: TurnCredit;
}

/** A websocket that carries binary messages unchanged. */
export class FrameSocket {
  readonly #ws: WebSocket;
  /** Null on the client's end. */
  readonly #server: ServerEnd | null;
  /** The socket of a client. Null on the server's end. */
  readonly #socket: CountingStream | null;
  readonly #keepalive: Keepalive;
  readonly #text: NonNullable<FrameSocketOptions['text']>;
  #events: FrameSocketEvents | null = null;
  /** The message that is arriving in pieces. */
  #arriving: UnfinishedMessage | null = null;
  #failure = '';
  #pendingBytes = 0;
  #congested = false;
  #closing = false;
  #closed = false;

  constructor(ws: WebSocket, options: FrameSocketOptions, underlying: Underlying) {
    const isServer = 'stream' in underlying;
    this.#ws = ws;
    this.#server = isServer ? underlying : null;
    this.#socket = isServer ? null : underlying.socket;
    this.#text = options.text ?? 'refuse';
    if (!isServer) ws.pause();
    ws.on('error', (error) => {
      this.#failure ||= error.message;
    });
    const peer = isServer ? underlying.stream : clientActivity(ws, underlying.socket);
    this.#keepalive = new Keepalive(ws, options, peer);
    // The socket may end before `open` is called.
    ws.once('close', () => this.#keepalive.stop());
  }

  /** Memory of the frames that the system has not accepted yet. */
  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  /** Starts delivery. Must be called once; earlier messages are kept until then. */
  open(events: FrameSocketEvents): void {
    this.#events = events;
    const ws = this.#ws;
    ws.on('message', (data: Buffer, isBinary) => this.#receive(data, isBinary));
    ws.on('close', (code, reason) => this.#ended(code, reason.toString()));
    if (ws.readyState === WebSocket.CLOSED) setImmediate(() => this.#ended(CloseCode.abnormal, ''));
    else if (this.#server === null) ws.resume();
    else this.#openStream(this.#server);
  }

  /**
   * Sends a frame. It is never refused while the socket is open, and dropped after its end. False asks the caller
   * to wait for `drained`.
   */
  send(frame: Uint8Array): boolean {
    if (this.#ws.readyState !== WebSocket.OPEN) return true;
    const bytes = frame.length + QUEUED_FRAME_COST_BYTES;
    this.#pendingBytes += bytes;
    if (this.#socket === null) this.#ws.send(frame, BINARY_FRAME, () => this.#sent(bytes));
    else this.#sendMasked(this.#socket, frame, bytes);
    this.#congested ||= this.#pendingBytes > SEND_WINDOW_BYTES;
    return !this.#congested;
  }

  /**
   * Stops or resumes reading, which creates back-pressure for the peer. A few frames may still arrive after a stop.
   */
  setReceiving(receiving: boolean): void {
    // The peer's answer to a close frame must be read.
    const isOpen = receiving || this.#closing;
    if (this.#server !== null) this.#server.stream.setReceiving(isOpen);
    else if (isOpen) this.#ws.resume();
    else this.#ws.pause();
  }

  /**
   * Closes the socket after everything that was sent. A peer that does not cooperate is cut off after a short time.
   */
  close(reason: CloseReason = { code: CloseCode.normal, reason: '' }): void {
    if (this.#closing || this.#ws.readyState === WebSocket.CLOSED) return;
    this.#closing = true;
    this.#arriving?.end();
    this.setReceiving(true);
    this.#ws.close(reason.code, truncateReason(reason.reason));
  }

  /** Cuts the connection without a close handshake, like a lost network. */
  drop(): void {
    this.#ws.terminate();
  }

  /** Past the library, which masks one byte at a time. */
  #sendMasked(socket: CountingStream, frame: Uint8Array, bytes: number): void {
    const masked = encodeMaskedFrame(WHOLE_BINARY, [frame]);
    socket.write(masked.bytes, () => {
      masked.release();
      this.#sent(bytes);
    });
  }

  #openStream(server: ServerEnd): void {
    const { stream } = server;
    stream.trustPeer();
    stream.open({
      message: (bytes, isBinary) => this.#receive(Buffer.from(bytes), isBinary),
      begin: (expectedBytes, isBinary) => this.#begin(server, expectedBytes, isBinary),
      tooLarge: (maxBytes) => {
        this.#failure ||= `a message has more than ${maxBytes} bytes`;
        this.close({ code: CloseCode.messageTooBig, reason: this.#failure });
      },
    });
  }

  /** The rest of a message that was refused, or arrives after a close, is dropped. */
  #begin({ unfinished, credit }: ServerEnd, expectedBytes: number, isBinary: boolean): LargeMessage {
    const buffer = new GrowableBuffer(expectedBytes);
    const refuse = () => {
      buffer.release();
      this.close(TOO_MUCH_UNFINISHED);
    };
    const entry = unfinished.begin(refuse, credit);
    this.#arriving = entry;
    return {
      add: (piece) => {
        this.#keepalive.received();
        if (this.#closing) return;
        buffer.add(piece);
        entry.add(piece.length);
      },
      isUtf8: () => this.#closing || isUtf8(buffer.bytes),
      end: () => {
        entry.end();
        this.#receive(buffer.take(), isBinary);
      },
    };
  }

  #receive(data: Buffer, isBinary: boolean): void {
    this.#keepalive.received();
    if (this.#closing) return;
    if (isBinary || this.#text === 'accept') this.#events?.frame(data);
    else if (this.#text === 'refuse')
      this.close({ code: CloseCode.policyViolation, reason: 'messages must be binary' });
  }

  #sent(bytes: number): void {
    if (this.#closed) return;
    this.#pendingBytes -= bytes;
    this.#events?.sent?.(bytes);
    if (!this.#congested || this.#pendingBytes > SEND_WINDOW_BYTES / 2) return;
    this.#congested = false;
    this.#events?.drained();
  }

  #ended(code: number, reason: string): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#arriving?.end();
    const lost = this.#pendingBytes;
    this.#pendingBytes = 0;
    if (lost > 0) this.#events?.sent?.(lost);
    this.#events?.closed({ code, reason: reason || this.#failure });
  }
}

/** Turns HTTP upgrade requests into frame sockets. The caller has authorized the requests. */
export class FrameSocketUpgrader {
  readonly #server: UpgradeServer;
  readonly #options: FrameSocketOptions;
  readonly #unfinished: UnfinishedMessages;

  constructor(options: FrameSocketServerOptions) {
    this.#options = options;
    this.#server = new UpgradeServer(options.maxMessageBytes);
    this.#unfinished = new UnfinishedMessages(options.maxUnfinishedBytes);
  }

  /**
   * Completes the handshake. An invalid request gets an HTTP error and yields no socket. The connections with one
   * `credit` share their turns, and their part of the unfinished messages.
   */
  upgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    accepted: (socket: FrameSocket) => void,
    credit = new TurnCredit(),
  ): void {
    const accept = (ws: WebSocket, stream: FrameStream) =>
      accepted(new FrameSocket(ws, this.#options, { stream, unfinished: this.#unfinished, credit }));
    this.#server.upgrade(request, socket, head, accept, credit);
  }
}

/** Options of a client's frame socket. */
interface FrameSocketConnectOptions extends WebSocketConnectOptions {
  readonly text?: FrameSocketOptions['text'];
}

/**
 * Opens a frame socket as a client. Rejects with UpgradeRefusedError when the server answers with another HTTP
 * status, and when the server cannot be reached or `signal` aborts.
 */
export function connectFrameSocket(
  url: string,
  options: FrameSocketConnectOptions = {},
): Promise<FrameSocket> {
  const { text = 'refuse' } = options;
  return openWebSocket(
    url,
    options,
    {},
    (ws, sizes, socket) => new FrameSocket(ws, { ...sizes, text }, { socket }),
  );
}

const TOO_MUCH_UNFINISHED: CloseReason = {
  code: CloseCode.tryAgainLater,
  reason: 'too many bytes of unfinished messages; this message was the oldest',
};
const BINARY_FRAME = { binary: true, compress: false, fin: true };
