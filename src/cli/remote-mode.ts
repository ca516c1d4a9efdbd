import type { Readable, Writable } from 'node:stream';
import { createLogger, type Logger } from '../observability/log.ts';
import { logStream } from '../observability/log-stream.ts';
import type { AwsSigning } from '../relay/direct/direct-executor.ts';
import type { ExecServerConfig } from '../server/config/config.ts';
import type { RunningServer } from '../server/serve.ts';
import {
  asRunError,
  type CredentialSources,
  connectedLine,
  openAuth,
  type RegistryFlags,
  startExecutor,
} from './registry-auth.ts';

/** A started executor. */
interface Executor {
  /** Resolves when the executor or its credentials end; rejects when the registry refuses. */
  readonly ended: Promise<void>;
  drain(): void;
  close(): void;
}

/** An executor that has its credentials. */
export interface PreparedExecutor {
  /** Starts it. Null when it has ended before. */
  start(): Promise<Executor | null>;
  /** Waits until a credential that is being renewed is stored. */
  settled(): Promise<void>;
}

/** The flags of an executor. */
type RemoteFlags = RegistryFlags & { readonly name: string | null; readonly signing: AwsSigning | null };

/**
 * Serves an environment for a registry, in addition to the server's listener. The result ends when the server ends, when the registry
 * refuses the executor, or when its credentials end. The code is loaded here, so that other servers start faster.
 */
export async function serveRemotely(
  server: RunningServer,
  flags: RemoteFlags,
  config: ExecServerConfig,
  sources: CredentialSources & { readonly stderr: Writable },
): Promise<RunningServer> {
  const log = createLogger(config.logLevel, logStream(sources.stderr));
  const stop = new AbortController();
  const { signing } = flags;
  const onConnected = () => void sources.stderr.write(connectedLine(flags));
  const { start, settled } =
    signing === null
      ? await relayExecutor(server, { ...flags, onConnected }, sources, log, stop.signal)
      : await (await import('./direct-mode.ts')).directExecutor(
          server,
          { ...flags, signing, onConnected },
          config,
          sources.env,
          log,
        );
  let executor: Executor | null = null;
  let closing: Promise<void> | null = null;
  const close = (reason?: string) => {
    executor?.drain();
    stop.abort();
    closing ??= server
      .close(reason)
      .finally(() => executor?.close())
      .finally(settled);
    return closing;
  };
  const run = async () => {
    executor = await start();
    if (closing !== null) executor?.close();
    await executor?.ended;
  };
  const finished = run().catch((error: unknown) => {
    if (!stop.signal.aborted) throw asRunError(error);
  });
  const closed = Promise.race([finished, server.closed]).finally(() => close());
  closed.catch(() => {});
  return { ...server, closed, close };
}

/** Takes the credentials for a relay. */
async function relayExecutor(
  server: RunningServer,
  flags: RemoteFlags & { onConnected(): void },
  sources: CredentialSources,
  log: Logger,
  stopped: AbortSignal,
): Promise<PreparedExecutor> {
  const { auth: opening, ended, tls, settled } = await openAuth(flags, sources, log, stopped);
  const start = async () => {
    const auth = await opening;
    if (stopped.aborted) return null;
    const { serveHarnesses } = await import('../relay/executor/run-remote-environment.ts');
    const { name, onConnected } = flags;
    const accept = serveHarnesses(server);
    const options = { auth, tls, log, accept, onConnected, ...(name !== null && { name }) };
    const executor = await startExecutor(flags, options);
    return {
      ended: Promise.race([executor.ended, ended]),
      drain: () => executor.drain(),
      close: () => executor.close(),
    };
  };
  return { start, settled };
}

/** Closes the server when its stdin ends, for parents that exit without a signal. */
export function endWithStdin(server: RunningServer, stdin: Readable): void {
  const end = () => void server.close('stdin is closed');
  for (const event of ['end', 'close', 'error']) stdin.once(event, end);
  stdin.resume();
}
