import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { WebSocket, type WebSocketServer } from 'ws';
import { SEND_WINDOW_BYTES } from './limits.ts';
import { openWebSocket, type WebSocketConnectOptions } from './open-websocket.ts';
import { CloseCode, type CloseReason } from './transport.ts';
import { createUpgradeServer, Keepalive, truncateReason, type WebSocketOptions } from './websocket.ts';

/** What a socket tells its owner. No event comes before `open`, and nothing after `closed`. */
export interface FrameSocketEvents {
  /** One binary message. The bytes belong to the owner. */
  frame(bytes: Uint8Array): void;
  /** So many bytes that were sent are not held here any more: the system has them, or they are lost with the socket. */
  sent?(bytes: number): void;
  /** There is room again after `send` returned false. */
  drained(): void;
  /** The end, exactly once, whoever caused it. */
  closed(reason: CloseReason): void;
}

/** How a frame socket differs from any websocket. */
export interface FrameSocketOptions extends WebSocketOptions {
  /** What becomes of text: by default who sends it is cut off; or it is let pass unseen, or taken like binary messages. */
  readonly text?: 'refuse' | 'ignore' | 'accept';
}

/** A websocket that carries binary messages, as they are. */
export class FrameSocket {
  readonly #ws: WebSocket;
  readonly #keepalive: Keepalive;
  readonly #text: NonNullable<FrameSocketOptions['text']>;
  #events: FrameSocketEvents | null = null;
  #failure = '';
  #pendingBytes = 0;
  #congested = false;
  #closing = false;
  #closed = false;

  constructor(ws: WebSocket, options: FrameSocketOptions, socket: Duplex) {
    this.#ws = ws;
    this.#text = options.text ?? 'refuse';
    ws.pause();
    ws.on('error', (error) => {
      this.#failure = error.message;
    });
    this.#keepalive = new Keepalive(ws, options, socket);
    // It may end before anybody has opened it.
    ws.once('close', () => this.#keepalive.stop());
  }

  /** Bytes that the system has not taken yet. */
  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  /** Starts delivery. Must be called once; messages that arrived before are kept until then. */
  open(events: FrameSocketEvents): void {
    this.#events = events;
    const ws = this.#ws;
    ws.on('message', (data: Buffer, isBinary) => this.#receive(data, isBinary));
    ws.on('close', (code, reason) => this.#ended(code, reason.toString()));
    if (ws.readyState === WebSocket.CLOSED) setImmediate(() => this.#ended(CloseCode.abnormal, ''));
    else ws.resume();
  }

  /** Never refused while the socket is open; after its end frames are dropped. False asks to hold back until `drained`. */
  send(frame: Uint8Array): boolean {
    if (this.#ws.readyState !== WebSocket.OPEN) return true;
    const { length } = frame;
    this.#pendingBytes += length;
    this.#ws.send(frame, BINARY_FRAME, () => this.#sent(length));
    this.#congested ||= this.#pendingBytes > SEND_WINDOW_BYTES;
    return !this.#congested;
  }

  /** Stops or resumes the intake, so that the peer feels back-pressure. A few frames may still come after a stop. */
  setReceiving(receiving: boolean): void {
    // The peer's answer to a close must be read.
    if (receiving || this.#closing) this.#ws.resume();
    else this.#ws.pause();
  }

  /** Ends the socket after what was sent. A peer that does not cooperate is cut off after a short time. */
  close(reason: CloseReason = { code: CloseCode.normal, reason: '' }): void {
    if (this.#closing || this.#ws.readyState === WebSocket.CLOSED) return;
    this.#closing = true;
    this.#ws.resume();
    this.#ws.close(reason.code, truncateReason(reason.reason));
  }

  /** Cuts the connection without a word, as a lost network does. */
  drop(): void {
    this.#ws.terminate();
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
    const lost = this.#pendingBytes;
    this.#pendingBytes = 0;
    if (lost > 0) this.#events?.sent?.(lost);
    this.#events?.closed({ code, reason: reason || this.#failure });
  }
}

/** Turns HTTP upgrade requests into frame sockets. It does not judge requests: the caller has done so. */
export class FrameSocketUpgrader {
  readonly #server: WebSocketServer;
  readonly #options: FrameSocketOptions;

  constructor(options: FrameSocketOptions) {
    this.#options = options;
    this.#server = createUpgradeServer(options.maxMessageBytes);
  }

  /** Completes the handshake; a request that is not a valid one is answered with an HTTP error and yields nothing. */
  upgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    accepted: (socket: FrameSocket) => void,
  ): void {
    this.#server.handleUpgrade(request, socket, head, (ws) =>
      accepted(new FrameSocket(ws, this.#options, socket)),
    );
  }
}

/** How a client's end is opened. */
export interface FrameSocketConnectOptions extends WebSocketConnectOptions {
  readonly text?: FrameSocketOptions['text'];
  /** A connection that leads to the server already, TLS included; a new one is made by default. */
  readonly connection?: Duplex;
  /**
   * Masks with zeros, which costs neither end anything. Masks keep a peer from writing words of its own into the connection of
   * somebody else, for a proxy between them that takes them for HTTP: only where no such proxy can be.
   */
  readonly zeroMask?: boolean;
}

/** Opens a client's end. Rejects with UpgradeRefusedError when the server answers otherwise, or when it is not reached or `signal` aborts. */
export function connectFrameSocket(
  url: string,
  options: FrameSocketConnectOptions = {},
): Promise<FrameSocket> {
  const { connection, text = 'refuse', zeroMask = false } = options;
  const socketOptions = {
    ...(connection !== undefined && { createConnection: () => connection as Socket }),
    ...(zeroMask && { generateMask: (mask: Buffer) => void mask.fill(0) }),
  };
  return openWebSocket(
    url,
    options,
    socketOptions,
    (ws, sizes, socket) => new FrameSocket(ws, { ...sizes, text }, socket),
  );
}

const BINARY_FRAME = { binary: true, compress: false, fin: true };
