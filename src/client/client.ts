import type { Duplex } from 'node:stream';
import type { TlsOptions } from '../transport/open-websocket.ts';
import type { CallOptions } from './backend.ts';
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
import { filesOf } from './files/client-files.ts';
import { NodeFiles } from './files/node-files.ts';
import { type ForwardOptions, PortForward } from './tcp/port-forward.ts';
import { TcpSocket } from './tcp/tcp-socket.ts';
import type { TcpTarget } from './tcp/tcp-streams.ts';

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
  /** The files of the server. */
  readonly files = new NodeFiles(filesOf(this));

  /** Connects and opens a session. A text is the URL of the server. Rejects with a ClientError and leaves nothing open. */
  static async connect(target: string | URL | ConnectOptions): Promise<ExecServerClient> {
    const options: ConnectOptions = connectOptions(target);
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
