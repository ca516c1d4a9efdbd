import type { Logger } from '../observability/log.ts';
import type { AwsSigning, DirectExecutor } from '../relay/direct/direct-executor.ts';
import type { ExecServerConfig } from '../server/config/config.ts';
import type { RunningServer } from '../server/serve.ts';
import { RunError, UsageError } from './failures.ts';
import type { RegistryFlags } from './registry-auth.ts';

/** Flags of an executor with the direct transport. */
export type DirectFlags = RegistryFlags & { readonly name: string | null; readonly signing: AwsSigning };

/**
 * Prepares an executor that serves its client over a websocket that it opens. Returns the function that starts it. Removes keys from the
 * environment, so that programs do not inherit them. Throws UsageError without an environment.
 */
export function directExecutor(
  server: RunningServer,
  { remote: registryUrl, environmentId, name, signing }: DirectFlags,
  config: ExecServerConfig,
  env: NodeJS.ProcessEnv,
  log: Logger,
): () => Promise<DirectExecutor> {
  if (environmentId === '') throw new UsageError('--remote needs --environment-id');
  const ownEnv = { ...env };
  for (const variable of SECRETS) delete env[variable];
  return async () => {
    const [{ DirectExecutor }, { harnessPrincipal }] = await Promise.all([
      import('../relay/direct/direct-executor.ts'),
      import('../server/auth/principal.ts'),
    ]);
    try {
      return new DirectExecutor({
        registryUrl,
        environmentId,
        aws: signing,
        env: ownEnv,
        log,
        maxMessageBytes: config.maxMessageBytes,
        accept: (transport) => server.accept(transport, harnessPrincipal('direct')),
        ...(name !== null && { name }),
      });
    } catch (error) {
      throw error instanceof TypeError ? new RunError(error.message) : error;
    }
  };
}

/** Variables with secrets. Those of a registry are not used, but programs must not inherit them either. */
const SECRETS = [
  'AWS_ACCESS_KEY_ID',
  'AWS_SECRET_ACCESS_KEY',
  'AWS_SESSION_TOKEN',
  'AWS_CONTAINER_AUTHORIZATION_TOKEN',
  'EXEC_SERVER_API_KEY',
  'CODEX_API_KEY',
];
