import { connectBrowserWebSocket } from '../transport/browser-websocket.ts';
import type { Transport } from '../transport/transport.ts';
import { ClientCore } from './client-core.ts';
import {
  type CommonUrlOptions,
  connectOptions,
  type TransportOptions,
} from './connection/connect-options.ts';
import { parseServerUrl, unreachable } from './connection/server-url.ts';
import type { TransportSource } from './connection/session-options.ts';
import { ClientError } from './errors.ts';
import { filesOf } from './files/client-files.ts';
import { Files } from './files/files.ts';

/** Connects to a server by its address. */
export interface UrlOptions extends CommonUrlOptions {
  /** `ws:` or `wss:`. */
  readonly url: string | URL;
  /** Not supported: a browser cannot add headers to a websocket. Any value but undefined is rejected. */
  readonly authToken?: string;
  /**
   * Subprotocols of the websocket. A function is called for each connection, so that each can carry a new ticket. A
   * ClientError of it that is not `retryable` ends the recovery of a lost connection.
   */
  readonly protocols?: readonly string[] | ((signal: AbortSignal) => Promise<readonly string[]>);
}

export type ConnectOptions = UrlOptions | TransportOptions;

/** A session with an exec-server that survives lost connections, for browsers. */
export class ExecServerClient extends ClientCore {
  /** The files of the server. */
  readonly files = new Files(filesOf(this));

  /** Connects and opens a session. A text is the URL of the server. Rejects with a ClientError and leaves nothing open. */
  static async connect(
    target: string | URL | ConnectOptions,
    ...further: readonly undefined[]
  ): Promise<ExecServerClient> {
    const options = connectOptions<UrlOptions>(target, { protocols: true }, further);
    const client = new ExecServerClient(sourceOf(options), options);
    await client.start(options);
    // A browser's websocket cannot send pings, so the client calls the server instead.
    if (!('open' in options)) client.keepAlive(options.pingIntervalMs, options.pongTimeoutMs);
    return client;
  }
}

/** Connects to a server: `ExecServerClient.connect` in short. */
export function connect(
  target: string | URL | ConnectOptions,
  ...further: readonly undefined[]
): Promise<ExecServerClient> {
  return ExecServerClient.connect(target, ...further);
}

function sourceOf(options: ReturnType<typeof connectOptions<UrlOptions>>): TransportSource {
  if ('open' in options) return options;
  const { maxMessageBytes, protocols = [] } = options;
  const { href, name } = parseServerUrl(String(options.url));
  if (href.startsWith('unix:')) {
    throw new ClientError('config', 'a browser cannot connect to a unix socket', {
      hint: 'make the server listen on ws:// or wss:// as well',
    });
  }
  if (options.authToken !== undefined) {
    throw new ClientError('config', 'a browser cannot send a token with a websocket', {
      hint: 'use a reverse proxy on the same origin that adds the Authorization header',
    });
  }
  const open = async (signal: AbortSignal): Promise<Transport> => {
    try {
      const offered = typeof protocols === 'function' ? await protocols(signal) : protocols;
      return await connectBrowserWebSocket(href, { maxMessageBytes, protocols: offered, signal });
    } catch (error) {
      throw error instanceof ClientError ? error : unreachable(name, error);
    }
  };
  return { open, resumable: true };
}
