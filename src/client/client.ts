import type { TlsOptions } from '../transport/open-websocket.ts';
import { ClientCore } from './client-core.ts';
import {
  type CommonUrlOptions,
  connectOptions,
  type TransportOptions,
  urlSettings,
} from './connection/connect-options.ts';
import { openWebSocket } from './connection/open-websocket.ts';
import { parseServerUrl } from './connection/server-url.ts';
import type { TransportSource } from './connection/session-options.ts';

/** Connects to a server by its address. */
export interface UrlOptions extends CommonUrlOptions {
  /** `ws:`, `wss:` or `unix:///PATH`. */
  readonly url: string;
  /** Sent as `Authorization: Bearer` with every connection. */
  readonly authToken?: string;
  readonly tls?: TlsOptions;
}

export type ConnectOptions = UrlOptions | TransportOptions;

/** A session with an exec-server that survives lost connections. */
export class ExecServerClient extends ClientCore {
  /** Connects and opens a session. A text is the URL of the server. Rejects with a ClientError and leaves nothing open. */
  static async connect(target: string | URL | ConnectOptions): Promise<ExecServerClient> {
    const options: ConnectOptions = connectOptions(target);
    const client = new ExecServerClient(sourceOf(options), options);
    await client.start(options);
    return client;
  }
}

/** Connects to a server: `ExecServerClient.connect` in short. */
export function connect(target: string | URL | ConnectOptions): Promise<ExecServerClient> {
  return ExecServerClient.connect(target);
}

function sourceOf(options: ConnectOptions): TransportSource {
  if (!('url' in options)) return options;
  const { url, authToken, tls } = options;
  parseServerUrl(url);
  const settings = { url, authToken, tls, ...urlSettings(options) };
  return { open: (signal) => openWebSocket(settings, signal), resumable: true };
}
