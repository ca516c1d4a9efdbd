import type { Readable } from 'node:stream';
import { rootCertificates } from 'node:tls';
import { systemReason } from '../client/system-error.ts';
import type { Logger } from '../observability/log.ts';
import type { ExecutorOptions, RunningExecutor } from '../relay/executor/run-executor.ts';
import type { RegistryAuth } from '../relay/registry-auth.ts';
import type { TlsOptions } from '../transport/tls-options.ts';
import { RunError, UsageError } from './failures.ts';

/** Flags of the registry where an executor registers. */
export interface RegistryFlags {
  /** The command whose help describes the flags; null for the program itself. */
  readonly command: string | null;
  /** Base URL of the registry. */
  readonly remote: string;
  readonly environmentId: string;
  readonly credentialStdin: boolean;
  readonly agentIdentity: boolean;
  /** Values that replace those of codex's config.toml, in TOML. */
  readonly configOverrides: Readonly<Record<string, string>>;
}

/** Where credentials come from. */
export interface CredentialSources {
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: Readable;
}

/** How this executor authenticates at the registry. */
interface OpenAuth {
  /** Resolves when a credential is there. Rejects with an error of the credential or the registry. */
  readonly auth: Promise<RegistryAuth>;
  /** Resolves when the sender of credentials ends the executor; rejects on an invalid message. */
  readonly ended: Promise<void>;
  /** TLS options for the registry and the rendezvous. */
  readonly tls: TlsOptions | undefined;
  /** Waits until a credential that is being renewed is stored. */
  settled(): Promise<void>;
}

/**
 * Takes the credentials that the flags ask for. Removes them from the environment, so that programs do not inherit them. Throws
 * UsageError for invalid flags, before anything is sent.
 */
export async function openAuth(
  flags: RegistryFlags,
  { env, stdin }: CredentialSources,
  log: Logger,
  signal: AbortSignal,
): Promise<OpenAuth> {
  const { CREDENTIAL_VARIABLES, signIn } = await import('../relay/sign-in/sign-in.ts');
  const variables = { ...env };
  for (const name of CREDENTIAL_VARIABLES) delete env[name];
  const environmentId = await checkTarget(flags);
  const tls = await trustedTls(variables);
  if (flags.credentialStdin) {
    const { CredentialFrames } = await import('../relay/sign-in/credential-frames.ts');
    const frames = new CredentialFrames(stdin, environmentId);
    const auth = frames.ready.then(() => frames);
    // A program that is stopped before does not wait for it.
    auth.catch(() => {});
    return { auth, ended: frames.ended, tls, settled: async () => {} };
  }
  const { loadFileLock } = await import('./file-lock.ts');
  const { remote: registryUrl, agentIdentity: useAgentIdentity, configOverrides } = flags;
  const fileLock = await loadFileLock();
  const auth = signIn(
    { registryUrl, useAgentIdentity, configOverrides, env: variables, tls, log, fileLock },
    signal,
  );
  auth.catch(() => {});
  const settled = () => auth.then((open) => open.settled?.()).catch(() => {});
  return { auth, ended: new Promise(() => {}), tls, settled };
}

/** Checks the flags that name the registry and the environment, and returns the environment id. Throws UsageError. */
export async function checkTarget({
  remote,
  environmentId,
  command,
}: Pick<RegistryFlags, 'remote' | 'environmentId' | 'command'>): Promise<string> {
  const { checkedEnvironmentId, parseRegistryUrl } = await import('../relay/registry-client.ts');
  if (environmentId.trim() === '') throw new UsageError('--remote needs --environment-id', command);
  try {
    parseRegistryUrl(remote);
    return checkedEnvironmentId(environmentId);
  } catch (error) {
    throw new UsageError(`--remote: ${(error as Error).message}`, command);
  }
}

/** Trusts the certificates of CODEX_CA_CERTIFICATE or SSL_CERT_FILE too, if one of them is set. */
export async function trustedTls(env: NodeJS.ProcessEnv): Promise<TlsOptions | undefined> {
  const { authorityFiles } = await import('../network/http/trusted-authorities.ts');
  const { system, added } = await authorityFiles(env).catch((error: Error) => {
    const { cause, message } = error;
    const text = cause instanceof Error ? message.replace(cause.message, systemReason(cause)) : message;
    throw new RunError(text.replace(/^http\/request failed: /, ''));
  });
  if (added === null) return undefined;
  return { ca: [...rootCertificates, ...(system === null ? [] : [system]), added.text] };
}

/** Starts an executor. Throws UsageError for invalid flags. */
export async function startExecutor(
  { remote: registryUrl, environmentId }: RegistryFlags,
  options: Omit<ExecutorOptions, 'registryUrl' | 'environmentId'>,
): Promise<RunningExecutor> {
  const { RunningExecutor } = await import('../relay/executor/run-executor.ts');
  return new RunningExecutor({ registryUrl, environmentId, ...options });
}

/** The line for people on stderr after each connection, at every log level. */
export function connectedLine({
  remote,
  environmentId,
}: Pick<RegistryFlags, 'remote' | 'environmentId'>): string {
  return `exec-server: connected to ${new URL(remote.trim()).host} as environment ${environmentId.trim()}\n`;
}

/** Turns errors of the registry or a credential into RunError: they are not defects of this program. */
export function asRunError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  return error.name === 'RegistryError' || error.name === 'CredentialError'
    ? new RunError(error.message)
    : error;
}
