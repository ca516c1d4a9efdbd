import type { Readable } from 'node:stream';
import { createLogger } from '../observability/log.ts';
import type { RunningExecutor } from '../relay/executor/run-executor.ts';
import type { ExecServerConfig } from '../server/config/config.ts';
import type { RunningServer } from '../server/serve.ts';
import {
  asRunError,
  type CredentialSources,
  openAuth,
  type RegistryFlags,
  startExecutor,
} from './registry-auth.ts';

/**
 * Serves an environment through a relay, in addition to the server's listener. The result ends when the server ends, when the registry
 * refuses the executor, or when its credentials end. The relay code is loaded here, so that other servers start faster.
 */
export async function serveRemotely(
  server: RunningServer,
  flags: RegistryFlags & { readonly name: string | null },
  config: ExecServerConfig,
  sources: CredentialSources & { readonly stderr: { write(text: string): unknown } },
): Promise<RunningServer> {
  const log = createLogger(config.logLevel, (line) => sources.stderr.write(line));
  const stop = new AbortController();
  const { auth: opening, ended, tls, settled } = await openAuth(flags, sources, log, stop.signal);
  let executor: RunningExecutor | null = null;
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
    const auth = await opening;
    if (closing !== null) return;
    const { serveHarnesses } = await import('../relay/executor/run-remote-environment.ts');
    const { name } = flags;
    const accept = serveHarnesses(server);
    executor = await startExecutor(flags, { auth, tls, log, accept, ...(name !== null && { name }) });
    if (closing !== null) executor.close();
    await Promise.race([executor.ended, ended]);
  };
  const finished = run().catch((error: unknown) => {
    if (!stop.signal.aborted) throw asRunError(error);
  });
  const closed = Promise.race([finished, server.closed]).finally(() => close());
  closed.catch(() => {});
  return { ...server, closed, close };
}

/** Closes the server when its stdin ends, for parents that exit without a signal. */
export function endWithStdin(server: RunningServer, stdin: Readable): void {
  const end = () => void server.close('stdin is closed');
  for (const event of ['end', 'close', 'error']) stdin.once(event, end);
  stdin.resume();
}
