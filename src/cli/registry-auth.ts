import type { Readable } from 'node:stream';
import type { ExecutorOptions, RunningExecutor } from '../relay/executor/run-executor.ts';
import type { RegistryAuth } from '../relay/registry-auth.ts';
import { RunError, UsageError } from './failures.ts';

/** Flags of the registry where an executor registers. */
export interface RegistryFlags {
  /** Base URL of the registry. */
  readonly remote: string;
  readonly environmentId: string;
  readonly credentialStdin: boolean;
}

/** Where credentials come from. */
export interface CredentialSources {
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: Readable;
}

/** How this executor authenticates at the registry. */
interface OpenAuth {
  readonly auth: RegistryAuth;
  /** False when stdin ended without a credential. */
  readonly ready: Promise<boolean>;
  /** Resolves when the sender of credentials ends the executor; rejects on an invalid message. */
  readonly ended: Promise<void>;
}

/** Takes the credentials that the flags ask for. Removes an API key from the environment, so that programs do not inherit it. */
export async function openAuth(flags: RegistryFlags, { env, stdin }: CredentialSources): Promise<OpenAuth> {
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

/** Starts an executor. Throws UsageError for invalid flags. */
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

/** Turns errors of the registry or a credential into RunError: they are not defects of this program. */
export function asRunError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  return error.name === 'RegistryError' || error.name === 'CredentialError'
    ? new RunError(error.message)
    : error;
}

/** The first one that is set is used. */
const API_KEY_VARIABLES = ['EXEC_SERVER_API_KEY', 'CODEX_API_KEY'] as const;
