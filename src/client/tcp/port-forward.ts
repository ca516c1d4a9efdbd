import type { Duplex } from 'node:stream';
import { notify } from '../../base/listeners.ts';
import type { CallOptions } from '../backend.ts';
import type { ClientState } from '../connection/client-status.ts';
import { expectOptions, expectPort, type OptionNames } from '../connection/option-checks.ts';
import { ClientError } from '../errors.ts';
import { FORWARD_ATTEMPTS } from '../limits.ts';
import { LocalListener } from './local-listener.ts';
import type { TcpTarget } from './tcp-streams.ts';

/** Which port of the server's machine to forward, and from where. */
export interface ForwardOptions extends TcpTarget {
  /** The port to listen on. Default: 0, any free port. */
  readonly localPort?: number;
  /** The address to listen on. Default: 127.0.0.1, which only programs of this machine reach. */
  readonly localHost?: string;
  /** Called when a connection could not be forwarded. It is reset. */
  readonly onError?: (error: ClientError) => void;
}

/** The part of a client that a forwarded port needs. */
export interface ForwardClient {
  readonly state: ClientState;
  connectTcp(target: TcpTarget, options?: CallOptions): Promise<Duplex>;
  onStateChange(listener: (state: ClientState) => void): () => void;
}

/** A local port whose connections lead to a port of the server's machine. It closes with its client. */
export class PortForward implements AsyncDisposable {
  readonly #listener: LocalListener;
  readonly #unsubscribe: () => void;

  private constructor(client: ForwardClient, listener: LocalListener) {
    this.#listener = listener;
    this.#unsubscribe = client.onStateChange((state) => {
      if (hasEnded(state)) void this.close();
    });
    void listener.closed.then(() => this.#unsubscribe());
  }

  /** Starts to listen. Rejects with ClientError. */
  static async open(client: ForwardClient, options: ForwardOptions): Promise<PortForward> {
    expectOptions('client.forward', options, FORWARD_OPTIONS);
    const { localHost = '127.0.0.1', localPort = 0, host, port, onError } = options ?? {};
    expectPort('port', port, 1);
    expectPort('localPort', localPort, 0);
    const target = { port, ...(host !== undefined && { host }) };
    const listener = await LocalListener.open({
      host: localHost,
      port: localPort,
      open: (_socket, signal) => openStream(client, target, signal),
      onError: (error) => {
        if (onError !== undefined) notify('onError of client.forward', onError, error);
      },
    });
    const forward = new PortForward(client, listener);
    if (hasEnded(client.state)) await forward.close();
    return forward;
  }

  /** The local port. */
  get port(): number {
    return this.#listener.port;
  }

  /** How many connections are being forwarded. */
  get openStreams(): number {
    return this.#listener.openStreams;
  }

  /** Stops listening. Open connections stay. */
  stop(): void {
    this.#listener.stop();
  }

  /** Stops listening and resets the open connections. Resolves when the port is free. */
  async close(): Promise<void> {
    this.#unsubscribe();
    await this.#listener.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

const FORWARD_OPTIONS: OptionNames<ForwardOptions> = {
  port: true,
  host: true,
  localPort: true,
  localHost: true,
  onError: true,
};

function hasEnded(state: ClientState): boolean {
  return state === 'closed' || state === 'failed';
}

/** Opens a stream. Tries again when the connection to the server was lost meanwhile: the peer has got no data yet. */
export async function openStream(
  client: Pick<ForwardClient, 'connectTcp'>,
  target: TcpTarget,
  signal: AbortSignal,
): Promise<Duplex> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await client.connectTcp(target, { signal });
    } catch (error) {
      const lost = error instanceof ClientError && error.kind === 'brokenPipe';
      if (!lost || attempt === FORWARD_ATTEMPTS) throw error;
    }
  }
}
