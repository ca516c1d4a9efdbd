import type { TlsOptions } from '../transport/open-websocket.ts';
import {
  ClientCore,
  type KeepAliveOptions,
  type SessionOptions,
  type TransportSource,
} from './client-core.ts';
import { openWebSocket } from './connection/open-websocket.ts';
import { parseServerUrl } from './connection/server-url.ts';
import { filesOf } from './files/client-files.ts';
import { NodeFiles } from './files/node-files.ts';
import { MAX_MESSAGE_BYTES, PEER_SILENCE_TIMEOUT_MS, PING_INTERVAL_MS } from './limits.ts';

/** Connects to a server by its address. */
export interface UrlOptions extends SessionOptions, KeepAliveOptions {
  /** `ws:`, `wss:` or `unix:///PATH`. */
  readonly url: string;
  /** Sent as `Authorization: Bearer` with every connection. */
  readonly authToken?: string;
  readonly tls?: TlsOptions;
}

/** Connects over transports that the caller provides: a command's stdio, memory, a relay. */
export interface TransportOptions extends SessionOptions, TransportSource {}

export type ConnectOptions = UrlOptions | TransportOptions;

/** A session with an exec-server that survives lost connections. */
export class ExecServerClient extends ClientCore {
  /** The files of the server. */
  readonly files = new NodeFiles(filesOf(this));

  /** Connects and opens a session. Rejects with a ClientError and leaves nothing open. */
  static async connect(options: ConnectOptions): Promise<ExecServerClient> {
    const client = new ExecServerClient(sourceOf(options), options);
    await client.start(options);
    return client;
  }
}

function sourceOf(options: ConnectOptions): TransportSource {
  if (!('url' in options)) return options;
  parseServerUrl(options.url);
  const settings = {
    url: options.url,
    authToken: options.authToken,
    tls: options.tls,
    maxMessageBytes: options.maxMessageBytes ?? MAX_MESSAGE_BYTES,
    pingIntervalMs: options.pingIntervalMs ?? PING_INTERVAL_MS,
    pongTimeoutMs: options.pongTimeoutMs ?? PEER_SILENCE_TIMEOUT_MS,
  };
  return { open: (signal) => openWebSocket(settings, signal), resumable: true };
}
