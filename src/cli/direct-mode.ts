import type { Logger } from '../observability/log.ts';
import type { AwsSigning } from '../relay/direct/direct-executor.ts';
import type { ExecServerConfig } from '../server/config/config.ts';
import type { RunningServer } from '../server/serve.ts';
import { RunError, UsageError } from './failures.ts';
import { type RegistryFlags, trustedTls } from './registry-auth.ts';
import type { PreparedExecutor } from './remote-mode.ts';

/** Flags of an executor with the direct transport. */
type DirectFlags = Pick<RegistryFlags, 'remote' | 'environmentId'> & {
  readonly name: string | null;
  readonly signing: AwsSigning;
  onConnected(): void;
};

/**
 * Prepares an executor that serves its client over a websocket that it opens. Removes keys from the environment, so that programs do not
 * inherit them. Throws UsageError without an environment.
 */
export async function directExecutor(
  server: RunningServer,
  { remote: registryUrl, environmentId, name, signing, onConnected }: DirectFlags,
  config: ExecServerConfig,
  env: NodeJS.ProcessEnv,
  log: Logger,
): Promise<PreparedExecutor> {
  if (environmentId.trim() === '') throw new UsageError('--remote needs --environment-id');
  const [{ DirectExecutor }, { harnessPrincipal }, { CREDENTIAL_VARIABLES }] = await Promise.all([
    import('../relay/direct/direct-executor.ts'),
    import('../server/auth/principal.ts'),
    import('../relay/sign-in/sign-in.ts'),
  ]);
  const ownEnv = { ...env };
  for (const variable of [...KEY_VARIABLES, ...CREDENTIAL_VARIABLES]) delete env[variable];
  const tls = await trustedTls(ownEnv);
  const start = async () => {
    try {
      return new DirectExecutor({
        registryUrl,
        environmentId,
        aws: signing,
        env: ownEnv,
        tls,
        log,
        onConnected,
        maxMessageBytes: config.maxMessageBytes,
        accept: (transport) => server.accept(transport, harnessPrincipal('direct')),
        ...(name !== null && { name }),
      });
    } catch (error) {
      throw error instanceof TypeError ? new RunError(error.message) : error;
    }
  };
  return { start, settled: async () => {} };
}

/** Variables with the keys of AWS. */
const KEY_VARIABLES = [
  'AWS_ACCESS_KEY_ID',
  'AWS_SECRET_ACCESS_KEY',
  'AWS_SESSION_TOKEN',
  'AWS_CONTAINER_AUTHORIZATION_TOKEN',
];
