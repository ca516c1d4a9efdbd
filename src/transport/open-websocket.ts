import type { Duplex } from 'node:stream';
import { type ClientOptions, WebSocket } from 'ws';
import { CLOSE_TIMEOUT_MS } from './limits.ts';
import type { WebSocketOptions } from './websocket.ts';

/** Has the library cut a peer off that does not finish a close, whichever end has begun it. Its types do not know the option. */
export const CLOSE_TIMEOUT_OPTION = { closeTimeout: CLOSE_TIMEOUT_MS };

/** Options of a client connection beside the sizes and times. */
export interface WebSocketConnectOptions extends Partial<WebSocketOptions> {
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly tls?: TlsOptions;
}

/** How a client trusts a server, and shows who it is itself. PEM texts. */
export interface TlsOptions {
  /** Whom to trust in place of the authorities that come with Node. */
  readonly ca?: string | Uint8Array | readonly (string | Uint8Array)[];
  readonly cert?: string | Uint8Array;
  readonly key?: string | Uint8Array;
  /** Default true. False accepts any server that can be reached, also an impostor. */
  readonly rejectUnauthorized?: boolean;
}

/** The server answered the request for a websocket with an ordinary HTTP response. */
export class UpgradeRefusedError extends Error {
  override readonly name = 'UpgradeRefusedError';
  readonly status: number;

  constructor(status: number) {
    super(`the server answered with HTTP ${status}`);
    this.status = status;
  }
}

/**
 * Opens a websocket as a client. It is handed to `wrap` before anything can arrive on it. Rejects with UpgradeRefusedError when the server
 * answers otherwise, or when it is not reached or `signal` aborts.
 */
export function openWebSocket<T>(
  url: string,
  options: WebSocketConnectOptions,
  socketOptions: Pick<ClientOptions, 'createConnection' | 'generateMask'>,
  wrap: (ws: WebSocket, sizes: WebSocketOptions, socket: Duplex) => T,
): Promise<T> {
  const { headers = {}, signal, maxMessageBytes = 0, pingIntervalMs = 0, peerSilenceTimeoutMs = 0 } = options;
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const ws = new WebSocket(url, {
      ...socketOptions,
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
      refusal = new UpgradeRefusedError(response.statusCode ?? 0);
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
