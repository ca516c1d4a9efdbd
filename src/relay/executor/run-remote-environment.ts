import { createHash } from 'node:crypto';
import { createLogger, type Logger } from '../../observability/log.ts';
import { logStream } from '../../observability/log-stream.ts';
import { harnessPrincipal } from '../../server/auth/principal.ts';
import type { ExecServerConfig } from '../../server/config/config.ts';
import { type RunningServer, serve } from '../../server/serve.ts';
import type { TlsOptions } from '../../transport/tls-options.ts';
import type { Transport } from '../../transport/transport.ts';
import type { RegistryAuth } from '../registry-auth.ts';
import type { RelayPeer } from '../stream/executor-link.ts';
import { RunningExecutor } from './run-executor.ts';

/** Configuration of an environment that is served through a relay. */
export interface RemoteEnvironmentConfig {
  /** Base URL of the registry: `https:`, or `http:` on this machine. */
  readonly registryUrl: string;
  readonly environmentId: string;
  /** Credential that allows this executor to serve the environment. */
  readonly auth: RegistryAuth;
  /** Configuration of the server. With `listen` other than `off`, clients can also connect directly. */
  readonly server: ExecServerConfig;
  /** TLS options for the registry and the rendezvous. */
  readonly tls?: TlsOptions;
  /** Default: logs to stderr like the server. */
  readonly log?: Logger;
  /** Called after each connection to the rendezvous: clients can reach the environment from then on. */
  onConnected?(): void;
}

/**
 * Serves an environment until the signal aborts, then shuts programs down gracefully. Rejects with RegistryError when the registry
 * refuses permanently.
 */
export async function runRemoteEnvironment(
  config: RemoteEnvironmentConfig,
  { signal }: { readonly signal: AbortSignal },
): Promise<void> {
  const log = config.log ?? createLogger(config.server.logLevel, logStream(process.stderr));
  const server = await serve(config.server);
  try {
    const executor = new RunningExecutor({ ...config, log, accept: serveHarnesses(server) });
    const stop = () => void shutDown(executor, server);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    try {
      await executor.ended;
    } finally {
      signal.removeEventListener('abort', stop);
    }
  } finally {
    await server.close();
  }
}

/** Shuts the server down first, so that harnesses receive the last events of their programs. */
async function shutDown(executor: RunningExecutor, server: RunningServer): Promise<void> {
  executor.drain();
  await server.close();
  executor.close();
}

/** Connects harnesses to a server. The key of a harness identifies it. */
export function serveHarnesses(server: RunningServer): (transport: Transport, peer: RelayPeer) => void {
  return (transport, { harnessKey }) => {
    const { x25519, mlkem768 } = harnessKey;
    const digest = createHash('sha256').update(x25519).update(mlkem768).digest('hex');
    void server.accept(transport, harnessPrincipal(digest.slice(0, KEY_ID_CHARS)));
  };
}

/** Hex digits of the key's digest in logs. */
const KEY_ID_CHARS = 16;
