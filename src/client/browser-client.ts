import { connectBrowserWebSocket } from '../transport/browser-websocket.ts';
import type { Transport } from '../transport/transport.ts';
import { ClientCore, type SessionOptions, type TransportSource } from './client-core.ts';
import { parseServerUrl, unreachable } from './connection/server-url.ts';
import { ClientError } from './errors.ts';
import { MAX_MESSAGE_BYTES, PEER_SILENCE_TIMEOUT_MS, PING_INTERVAL_MS } from './limits.ts';

/** Connects to a server by its address. */
export interface UrlOptions extends SessionOptions {
  /** `ws:` or `wss:`. */
  readonly url: string;
  /** Not possible in a browser, which sends no headers of a page's choice: anything but undefined is refused. */
  readonly authToken?: string;
  /** Interval of probes. */
  readonly pingIntervalMs?: number;
  /** How long the server may take to answer a probe. */
  readonly pongTimeoutMs?: number;
}

/** Connects over transports of the caller's own. */
export interface TransportOptions extends SessionOptions, TransportSource {}

export type ConnectOptions = UrlOptions | TransportOptions;

/** A session with an exec-server that outlives its connections, for browsers. */
export class ExecServerClient extends ClientCore {
  /** Connects and opens a session. Rejects with a ClientError; nothing is left open then. */
  static async connect(options: ConnectOptions): Promise<ExecServerClient> {
    const client = new ExecServerClient(sourceOf(options), options);
    await client.start(options);
    // A browser's websocket cannot ping, so the server is asked in its place.
    if ('url' in options) {
      client.keepAlive(
        options.pingIntervalMs ?? PING_INTERVAL_MS,
        options.pongTimeoutMs ?? PEER_SILENCE_TIMEOUT_MS,
      );
    }
    return client;
  }
}

function sourceOf(options: ConnectOptions): TransportSource {
  if (!('url' in options)) return options;
  const { url, authToken, maxMessageBytes = MAX_MESSAGE_BYTES } = options;
  const { href, name } = parseServerUrl(url);
  if (href.startsWith('unix:')) {
    throw new ClientError('config', 'a browser cannot connect to a socket in the file system', {
      hint: 'let the server listen on ws:// or wss:// too',
    });
  }
  if (authToken !== undefined) {
    throw new ClientError('config', 'a browser cannot send a token with a websocket', {
      hint: 'let a proxy of the same origin add the Authorization header',
    });
  }
  const open = async (signal: AbortSignal): Promise<Transport> => {
    try {
      return await connectBrowserWebSocket(href, { maxMessageBytes, signal });
    } catch (error) {
      throw error instanceof ClientError ? error : unreachable(name, error);
    }
  };
  return { open, resumable: true };
}
