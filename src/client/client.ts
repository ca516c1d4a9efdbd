import type { Duplex } from 'node:stream';
import type { TlsOptions } from '../transport/tls-options.ts';
import type { CallOptions } from './backend.ts';
import { ClientCore } from './client-core.ts';
import {
  type CommonUrlOptions,
  connectOptions,
  type TransportOptions,
} from './connection/connect-options.ts';
import { openWebSocket } from './connection/open-websocket.ts';
import { parseServerUrl } from './connection/server-url.ts';
import type { TransportSource } from './connection/session-options.ts';
import { checkTls } from './connection/tls-checks.ts';
import { filesOf } from './files/client-files.ts';
import { NodeFiles } from './files/node-files.ts';
import { type ForwardOptions, PortForward } from './tcp/port-forward.ts';
import { TcpSocket } from './tcp/tcp-socket.ts';
import type { TcpTarget } from './tcp/tcp-streams.ts';

/** Connects to a server by its address. */
export interface UrlOptions extends CommonUrlOptions {
  /** `ws:`, `wss:` or `unix:///PATH`. */
  readonly url: string | URL;
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
  static async connect(
    target: string | URL | ConnectOptions,
    ...further: readonly undefined[]
  ): Promise<ExecServerClient> {
    const options = connectOptions<UrlOptions>(target, { tls: true }, further);
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
export function connect(
  target: string | URL | ConnectOptions,
  ...further: readonly undefined[]
): Promise<ExecServerClient> {
  return ExecServerClient.connect(target, ...further);
}

function sourceOf(options: ReturnType<typeof connectOptions<UrlOptions>>): TransportSource {
  if ('open' in options) return options;
  checkTls(options.tls);
  const settings = { ...options, url: String(options.url), hasWorked: false };
  parseServerUrl(settings.url);
  const open = async (signal: AbortSignal) => {
    const transport = await openWebSocket(settings, signal);
    settings.hasWorked = true;
    return transport;
  };
  return { open, resumable: true };
}
