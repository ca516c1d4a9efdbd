import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { onAbort } from '../../base/abort.ts';
import { TimeLimit } from '../../base/time-limit.ts';
import { withTimeout } from '../../base/with-timeout.ts';
import {
  AWS_CREDENTIAL_PROCESS_TIMEOUT_MS,
  AWS_OUTPUT_AFTER_EXIT_MS,
  MAX_AWS_ANSWER_BYTES,
} from '../limits.ts';
import type { OutboundOptions } from '../outbound/proxy.ts';
import { CredentialError } from '../registry-auth.ts';
import { type AwsProfile, readProfile } from './aws-profiles.ts';
import {
  containerCredentials,
  instanceCredentials,
  parseCredentials,
  webIdentityCredentials,
} from './aws-services.ts';
import type { AwsCredentials } from './sigv4.ts';

/** Environment variables. */
type Variables = OutboundOptions['env'];

/** Where the keys of a signature come from. */
interface AwsSource {
  /** The profile of `--aws-profile`; null uses the default sources. */
  readonly profile: string | null;
  readonly region: string;
  readonly env: Variables;
}

/**
 * Returns the keys for the next signature. A named profile is the only source then. Without one the sources are, in this order:
 * variables, the shared files, a web identity, a container's and a machine's metadata service. Throws CredentialError.
 */
export async function awsCredentials(source: AwsSource, signal: AbortSignal): Promise<AwsCredentials> {
  const { env, profile: named, region } = source;
  if (named === null && env.AWS_ACCESS_KEY_ID && env.AWS_SECRET_ACCESS_KEY) {
    return {
      accessKeyId: env.AWS_ACCESS_KEY_ID,
      secretAccessKey: env.AWS_SECRET_ACCESS_KEY,
      sessionToken: env.AWS_SESSION_TOKEN || null,
    };
  }
  const chosen = named ?? (env.AWS_PROFILE || null);
  const profile = readProfile(chosen ?? 'default', env);
  if (profile === null && chosen !== null) {
    throw new CredentialError(`the AWS profile '${chosen}' is not in the shared AWS files`);
  }
  const found = profile === null ? null : await profileCredentials(profile, source, signal);
  if (found !== null) return found;
  if (named !== null) throw new CredentialError(`the AWS profile '${named}' has no keys`);
  const roleArn = env.AWS_ROLE_ARN;
  const tokenFile = env.AWS_WEB_IDENTITY_TOKEN_FILE;
  if (roleArn && tokenFile) {
    const role = { roleArn, tokenFile, sessionName: env.AWS_ROLE_SESSION_NAME || null };
    return webIdentityCredentials(role, region, env, signal);
  }
  const fetched = (await containerCredentials(env, signal)) ?? (await instanceCredentials(env, signal));
  if (fetched !== null) return fetched;
  throw new CredentialError(
    'no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile with --aws-profile',
  );
}

/** Returns the signing region. Throws CredentialError when nothing names one. */
export function awsRegion(given: string | null, profile: string | null, env: Variables): string {
  const region =
    given?.trim() ||
    env.AWS_REGION ||
    env.AWS_DEFAULT_REGION ||
    readProfile(profile ?? (env.AWS_PROFILE || 'default'), env)?.region;
  if (region) return region;
  throw new CredentialError(
    'no AWS region: use --aws-region, or set AWS_REGION or the region of the profile',
  );
}

/** Returns the keys of a profile; null when it names no source. */
async function profileCredentials(
  profile: AwsProfile,
  { region, env }: AwsSource,
  signal: AbortSignal,
): Promise<AwsCredentials | null> {
  const { aws_access_key_id: accessKeyId, aws_secret_access_key: secretAccessKey } = profile;
  if (profile.role_arn) {
    const { role_arn: roleArn, web_identity_token_file: tokenFile, role_session_name: name } = profile;
    if (!tokenFile) throw unsupported('a role with source_profile or credential_source');
    return webIdentityCredentials({ roleArn, tokenFile, sessionName: name || null }, region, env, signal);
  }
  if (accessKeyId && secretAccessKey) {
    return { accessKeyId, secretAccessKey, sessionToken: profile.aws_session_token || null };
  }
  if (profile.credential_process) return runCredentialProcess(profile.credential_process, env, signal);
  if (profile.sso_session || profile.sso_start_url) throw unsupported('single sign-on');
  if (profile.login_session) throw unsupported('a console sign-in');
  return null;
}

function unsupported(what: string): CredentialError {
  return new CredentialError(
    `the AWS profile uses ${what}, which needs the AWS SDK; set credential_process to ` +
      "'aws configure export-credentials --profile NAME --format process', or use keys",
  );
}

/** Runs a command that prints keys as JSON. Its output may contain secrets and is not shown. */
function runCredentialProcess(command: string, env: Variables, signal: AbortSignal): Promise<AwsCredentials> {
  return TimeLimit.run(AWS_CREDENTIAL_PROCESS_TIMEOUT_MS, signal, async (limited) => {
    const [status, text] = await outputOf(command, env, limited);
    if (signal.aborted) throw signal.reason;
    const how = limited.aborted ? 'did not end in time' : status === 0 ? null : `failed (${status})`;
    if (how !== null) throw new CredentialError(`the credential_process of the AWS profile ${how}`);
    return parseCredentials('credential_process', text);
  });
}

/** Runs a shell command and returns its exit status and output. Kills its process group when the signal aborts. */
async function outputOf(
  command: string,
  env: Variables,
  signal: AbortSignal,
): Promise<[number | string, string]> {
  signal.throwIfAborted();
  // A process group of its own, so that the shell's children can be killed with it.
  const child = spawn(command, { shell: true, detached: true, env, stdio: ['ignore', 'pipe', 'ignore'] });
  const kill = () => {
    try {
      process.kill(-child.pid!, 'SIGKILL');
    } catch {}
  };
  const stop = onAbort(signal, kill);
  const parts: Buffer[] = [];
  let length = 0;
  child.stdout.on('data', (part: Buffer) => {
    length += part.length;
    if (length <= MAX_AWS_ANSWER_BYTES) parts.push(part);
    else kill();
  });
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  try {
    const [code, killedBy] = (await once(child, 'exit')) as [number | null, string | null];
    // A background process that the kill did not reach may keep the pipe open.
    if (!signal.aborted) await withTimeout(closed, AWS_OUTPUT_AFTER_EXIT_MS, { signal }).catch(() => {});
    return [code ?? killedBy ?? '', Buffer.concat(parts).toString()];
  } catch (error) {
    throw new CredentialError(
      `cannot run the credential_process of the AWS profile: ${(error as Error).message}`,
    );
  } finally {
    stop();
    child.stdout.destroy();
  }
}
