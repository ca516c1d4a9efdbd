import { connectBrowserWebSocket } from '../transport/browser-websocket.ts';
import type { Transport } from '../transport/transport.ts';
import {
  ClientCore,
  type KeepAliveOptions,
  type SessionOptions,
  type TransportSource,
} from './client-core.ts';
import { parseServerUrl, unreachable } from './connection/server-url.ts';
import { ClientError } from './errors.ts';
import { filesOf } from './files/client-files.ts';
import { Files } from './files/files.ts';
import { MAX_MESSAGE_BYTES, PEER_SILENCE_TIMEOUT_MS, PING_INTERVAL_MS } from './limits.ts';

/** Connects to a server by its address. */
export interface UrlOptions extends SessionOptions, KeepAliveOptions {
  /** `ws:` or `wss:`. */
  readonly url: string;
  /** Not supported: a browser cannot add headers to a websocket. Any value but undefined is rejected. */
  readonly authToken?: string;
}

/** Connects over transports that the caller provides. */
export interface TransportOptions extends SessionOptions, TransportSource {}

export type ConnectOptions = UrlOptions | TransportOptions;

/** A session with an exec-server that survives lost connections, for browsers. */
export class ExecServerClient extends ClientCore {
  /** The files of the server. */
  readonly files = new Files(filesOf(this));

  /** Connects and opens a session. Rejects with a ClientError and leaves nothing open. */
  static async connect(options: ConnectOptions): Promise<ExecServerClient> {
    const client = new ExecServerClient(sourceOf(options), options);
    await client.start(options);
    // A browser's websocket cannot send pings, so the client calls the server instead.
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
    throw new ClientError('config', 'a browser cannot connect to a unix socket', {
      hint: 'make the server listen on ws:// or wss:// as well',
    });
  }
  if (authToken !== undefined) {
    throw new ClientError('config', 'a browser cannot send a token with a websocket', {
      hint: 'use a reverse proxy on the same origin that adds the Authorization header',
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
