import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type ClientOptions, WebSocket } from 'ws';
import { CLOSE_TIMEOUT_MS } from './limits.ts';
import type { TlsOptions } from './tls-options.ts';
import type { WebSocketOptions } from './websocket.ts';

/** Makes `ws` cut off a peer that does not complete a close handshake. The types of `ws` lack the option. */
export const CLOSE_TIMEOUT_OPTION = { closeTimeout: CLOSE_TIMEOUT_MS };

/** Options of a client connection, besides limits and timeouts. */
export interface WebSocketConnectOptions extends Partial<WebSocketOptions> {
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly tls?: TlsOptions;
  /** An existing connection to the server, including TLS; by default a new one is opened. */
  readonly connection?: Duplex;
}

/** The server answered the upgrade request with another HTTP status. */
export class UpgradeRefusedError extends Error {
  override readonly name = 'UpgradeRefusedError';
  readonly status: number;
  /** Where the server redirects to; null when it does not. */
  readonly location: string | null;

  constructor(status: number, location: string | null = null) {
    super(`the server answered with HTTP ${status}`);
    this.status = status;
    this.location = location;
  }
}

/**
 * Opens a websocket as a client. Passes it to `wrap` before any message can arrive. Rejects with
 * UpgradeRefusedError when the server answers with another HTTP status, and when the server cannot be reached or
 * `signal` aborts.
 */
export function openWebSocket<T>(
  url: string,
  options: WebSocketConnectOptions,
  socketOptions: Pick<ClientOptions, 'createConnection'>,
  wrap: (ws: WebSocket, sizes: WebSocketOptions, socket: Duplex) => T,
): Promise<T> {
  const { headers = {}, signal, maxMessageBytes = 0, pingIntervalMs = 0, peerSilenceTimeoutMs = 0 } = options;
  const { connection } = options;
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const ws = new WebSocket(url, {
      ...socketOptions,
      ...(connection !== undefined && { createConnection: () => connection as Socket }),
      autoPong: false,
      perMessageDeflate: false,
      maxPayload: maxMessageBytes,
      headers,
      ...CLOSE_TIMEOUT_OPTION,
      ...(options.tls as ClientOptions),
    });
    let refusal: Error | null = null;
    let socket: Duplex;
    const abort = () => ws.terminate();
    const refused = (error: Error) => {
      signal?.removeEventListener('abort', abort);
      reject(refusal ?? error);
    };
    signal?.addEventListener('abort', abort, { once: true });
    ws.once('unexpected-response', (_request, response) => {
      refusal = new UpgradeRefusedError(response.statusCode ?? 0, response.headers.location ?? null);
      ws.terminate();
    });
    ws.once('error', refused);
    ws.once('upgrade', (response) => {
      socket = response.socket;
    });
    ws.once('open', () => {
      signal?.removeEventListener('abort', abort);
      ws.off('error', refused);
      resolve(wrap(ws, { maxMessageBytes, pingIntervalMs, peerSilenceTimeoutMs }, socket));
    });
  });
}
