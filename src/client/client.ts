import type { Duplex } from 'node:stream';
import type { TlsOptions } from '../transport/open-websocket.ts';
import type { CallOptions } from './backend.ts';
import {
  ClientCore,
  type KeepAliveOptions,
  type SessionOptions,
  type TransportSource,
} from './client-core.ts';
import { openWebSocket } from './connection/open-websocket.ts';
import { parseServerUrl } from './connection/server-url.ts';
import { MAX_MESSAGE_BYTES, PEER_SILENCE_TIMEOUT_MS, PING_INTERVAL_MS } from './limits.ts';
import { type ForwardOptions, PortForward } from './tcp/port-forward.ts';
import { TcpSocket } from './tcp/tcp-socket.ts';
import type { TcpTarget } from './tcp/tcp-streams.ts';

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
  /** Connects and opens a session. Rejects with a ClientError and leaves nothing open. */
  static async connect(options: ConnectOptions): Promise<ExecServerClient> {
    const client = new ExecServerClient(sourceOf(options), options);
    await client.start(options);
    return client;
  }

  /**
   * Opens a TCP connection from the server's machine, as a stream of Node. It is half-open: each side ends on its own. It breaks when
   * the connection to the server is lost.
   */
  async connectTcp(target: TcpTarget, options: CallOptions = {}): Promise<Duplex> {
    return new TcpSocket(await this.tcp.connect(target, options));
  }

  /**
   * Listens on a port of this machine and forwards its connections to a port of the server's machine. It survives lost connections:
   * open ones are reset, and new ones wait for the recovery.
   */
  forward(options: ForwardOptions): Promise<PortForward> {
    return PortForward.open(this, options);
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
