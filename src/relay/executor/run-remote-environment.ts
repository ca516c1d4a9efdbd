import { createHash } from 'node:crypto';
import { createLogger, type Logger } from '../../observability/log.ts';
import { harnessPrincipal } from '../../server/auth/principal.ts';
import type { ExecServerConfig } from '../../server/config/config.ts';
import { type RunningServer, serve } from '../../server/serve.ts';
import type { TlsOptions } from '../../transport/open-websocket.ts';
import type { Transport } from '../../transport/transport.ts';
import type { RegistryAuth } from '../registry-auth.ts';
import type { RelayPeer } from '../stream/executor-link.ts';
import { RunningExecutor } from './run-executor.ts';

/** An environment that is served to harnesses through a relay. */
export interface RemoteEnvironmentConfig {
  /** Base URL of the registry: `https:`, or `http:` on this machine. */
  readonly registryUrl: string;
  readonly environmentId: string;
  /** Shows the registry that this executor may serve the environment. */
  readonly auth: RegistryAuth;
  /** How the server behind it works. With `listen` other than `off` it can be reached directly as well. */
  readonly server: ExecServerConfig;
  /** How the registry and the rendezvous are trusted. */
  readonly tls?: TlsOptions;
  /** Default: to stderr, as the server logs. */
  readonly log?: Logger;
}

/**
 * Serves an environment until the signal aborts; then programs are ended in good order. Rejects with RegistryError when the registry
 * says no in a way that does not pass.
 */
export async function runRemoteEnvironment(
  config: RemoteEnvironmentConfig,
  { signal }: { readonly signal: AbortSignal },
): Promise<void> {
  const log = config.log ?? createLogger(config.server.logLevel, (line) => process.stderr.write(line));
  const server = await serve(config.server);
  try {
    const executor = new RunningExecutor({ ...config, log, accept: serveHarnesses(server) });
    const stop = () => void endInOrder(executor, server);
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

/** Harnesses hear what becomes of their programs before they are cut off. */
export async function endInOrder(executor: RunningExecutor, server: RunningServer): Promise<void> {
  executor.drain();
  await server.close();
  executor.close();
}

/** Has a server take harnesses. Each is known by its key. */
export function serveHarnesses(server: RunningServer): (transport: Transport, peer: RelayPeer) => void {
  return (transport, { harnessKey }) => {
    const { x25519, mlkem768 } = harnessKey;
    const digest = createHash('sha256').update(x25519).update(mlkem768).digest('hex');
    void server.accept(transport, harnessPrincipal(digest.slice(0, KEY_ID_CHARS)));
  };
}

/** Enough of a digest to tell keys apart in logs. */
const KEY_ID_CHARS = 16;
