import type { Readable } from 'node:stream';
import type { ExecutorOptions, RunningExecutor } from '../relay/executor/run-executor.ts';
import type { RegistryAuth } from '../relay/registry-auth.ts';
import { RunError, UsageError } from './failures.ts';

/** Flags about the registry at which an executor registers. */
export interface RegistryFlags {
  /** Base URL of the registry. */
  readonly remote: string;
  readonly environmentId: string;
  readonly credentialStdin: boolean;
}

/** Where credentials are looked for. */
export interface CredentialPlaces {
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: Readable;
}

/** How this executor shows the registry who it is. */
export interface OpenAuth {
  readonly auth: RegistryAuth;
  /** False when no credential came and none will come. */
  readonly ready: Promise<boolean>;
  /** Resolves when whoever sends credentials wants the executor to end; rejects at nonsense. */
  readonly ended: Promise<void>;
}

/** Takes the credentials that the flags ask for. An API key is taken away from the environment: programs have no use for it. */
export async function openAuth(flags: RegistryFlags, { env, stdin }: CredentialPlaces): Promise<OpenAuth> {
  if (flags.environmentId === '') throw new UsageError('--remote needs --environment-id');
  const key = API_KEY_VARIABLES.map((name) => env[name]?.trim()).find(Boolean);
  for (const name of API_KEY_VARIABLES) delete env[name];
  if (flags.credentialStdin) {
    const { CredentialFrames } = await import('../relay/executor/credential-frames.ts');
    const auth = new CredentialFrames(stdin, flags.environmentId);
    return { auth, ready: auth.ready, ended: auth.ended };
  }
  if (key === undefined) {
    throw new RunError(
      `--remote needs a credential: set ${API_KEY_VARIABLES.join(' or ')}, or send one with --executor-credential-stdin`,
    );
  }
  const { bearerAuth } = await import('../relay/registry-auth.ts');
  try {
    return { auth: bearerAuth(key), ready: Promise.resolve(true), ended: new Promise(() => {}) };
  } catch (error) {
    throw new RunError(`the API key: ${(error as Error).message}`);
  }
}

/** Starts an executor. Throws UsageError for flags that make no sense. */
export async function startExecutor(
  { remote: registryUrl, environmentId }: RegistryFlags,
  options: Omit<ExecutorOptions, 'registryUrl' | 'environmentId'>,
): Promise<RunningExecutor> {
  const { RunningExecutor } = await import('../relay/executor/run-executor.ts');
  try {
    return new RunningExecutor({ registryUrl, environmentId, ...options });
  } catch (error) {
    throw error instanceof TypeError ? new UsageError(`--remote: ${error.message}`) : error;
  }
}

/** What goes wrong with a registry or a credential is no defect of this program. */
export function asRunError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  return error.name === 'RegistryError' || error.name === 'CredentialError'
    ? new RunError(error.message)
    : error;
}

/** The first that is set counts. */
const API_KEY_VARIABLES = ['EXEC_SERVER_API_KEY', 'CODEX_API_KEY'] as const;
