import { readFileSync } from 'node:fs';
import { TimeLimit } from '../../base/time-limit.ts';
import { AWS_METADATA_TIMEOUT_MS, AWS_SERVICE_TIMEOUT_MS, MAX_AWS_ANSWER_BYTES } from '../limits.ts';
import { exchangeHttp, failureReason, type HttpRequest, isSuccess } from '../outbound/http-exchange.ts';
import { isLoopbackHost, type OutboundOptions } from '../outbound/proxy.ts';
import { CredentialError } from '../registry-auth.ts';
import type { AwsCredentials } from './sigv4.ts';

/** A role that a token in a file may assume. */
interface WebIdentityRole {
  readonly roleArn: string;
  readonly tokenFile: string;
  readonly sessionName: string | null;
}

/**
 * Exchanges the token of a web identity for keys.
 * https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html
 */
export async function webIdentityCredentials(
  { roleArn, tokenFile, sessionName }: WebIdentityRole,
  region: string,
  env: OutboundOptions['env'],
  signal: AbortSignal,
): Promise<AwsCredentials> {
  const what = 'AWS Security Token Service';
  const endpoint =
    env.AWS_ENDPOINT_URL_STS ||
    env.AWS_ENDPOINT_URL ||
    `https://sts.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`;
  const url = serviceUrl(what, endpoint, isLoopbackHost);
  const body = new URLSearchParams({
    Action: 'AssumeRoleWithWebIdentity',
    Version: '2011-06-15',
    RoleArn: roleArn,
    RoleSessionName: sessionName ?? `exec-server-${Date.now()}`,
    WebIdentityToken: readToken(tokenFile),
  }).toString();
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const text = await ask(what, { url, method: 'POST', headers, body }, env, AWS_SERVICE_TIMEOUT_MS, signal);
  const member = (name: string) => new RegExp(`<${name}>([^<]+)</${name}>`).exec(text)?.[1]?.trim();
  return keysOf(what, {
    AccessKeyId: member('AccessKeyId'),
    SecretAccessKey: member('SecretAccessKey'),
    Token: member('SessionToken'),
  });
}

/**
 * Returns the keys of a container; null without one.
 * https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
 */
export async function containerCredentials(
  env: OutboundOptions['env'],
  signal: AbortSignal,
): Promise<AwsCredentials | null> {
  const what = 'the AWS container endpoint';
  const relative = env.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI;
  const full = relative ? `http://169.254.170.2${relative}` : env.AWS_CONTAINER_CREDENTIALS_FULL_URI;
  if (!full) return null;
  const url = serviceUrl(what, full, (host) => isLoopbackHost(host) || CONTAINER_HOSTS.includes(host));
  const tokenFile = env.AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE;
  const token = tokenFile ? readToken(tokenFile) : env.AWS_CONTAINER_AUTHORIZATION_TOKEN;
  const headers = token ? { authorization: token } : {};
  // A proxy cannot reach the metadata of this machine.
  const text = await ask(what, { url, method: 'GET', headers }, {}, AWS_SERVICE_TIMEOUT_MS, signal);
  return parseCredentials(what, text);
}

/** Where the keys of a container may be requested without TLS: the addresses of ECS and EKS. */
const CONTAINER_HOSTS = ['169.254.170.2', '169.254.170.23', '[fd00:ec2::23]'];

/**
 * Returns the keys of the machine's role; null on a machine without a metadata service.
 * https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
 */
export async function instanceCredentials(
  env: OutboundOptions['env'],
  signal: AbortSignal,
): Promise<AwsCredentials | null> {
  if (/^true$/i.test(env.AWS_EC2_METADATA_DISABLED ?? '')) return null;
  const what = 'the AWS instance metadata service';
  const endpoint = env.AWS_EC2_METADATA_SERVICE_ENDPOINT || 'http://169.254.169.254';
  const url = (path: string) =>
    serviceUrl(what, `${endpoint.replace(/\/+$/, '')}/latest/${path}`, () => true);
  const get = (path: string, headers: HttpRequest['headers'], method: 'GET' | 'PUT' = 'GET') =>
    ask(what, { url: url(path), method, headers }, {}, AWS_METADATA_TIMEOUT_MS, signal);
  let token: string;
  try {
    token = await get('api/token', { 'x-aws-ec2-metadata-token-ttl-seconds': '21600' }, 'PUT');
  } catch (error) {
    // Most machines are not in AWS.
    if (signal.aborted || !(error instanceof CredentialError)) throw error;
    return null;
  }
  const headers = { 'x-aws-ec2-metadata-token': token.trim() };
  const [role = ''] = (await get(ROLES, headers)).trim().split('\n');
  return parseCredentials(what, await get(`${ROLES}${role}`, headers));
}

const ROLES = 'meta-data/iam/security-credentials/';

/** Reads the JSON in which services and `credential_process` return keys. Throws CredentialError. */
export function parseCredentials(what: string, text: string): AwsCredentials {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new CredentialError(`the answer of ${what} is not JSON`);
  }
  return keysOf(what, (answer ?? {}) as Record<string, unknown>);
}

function keysOf(what: string, answer: Readonly<Record<string, unknown>>): AwsCredentials {
  const { AccessKeyId: accessKeyId, SecretAccessKey: secretAccessKey } = answer;
  const sessionToken = answer.Token ?? answer.SessionToken ?? null;
  const isComplete = [accessKeyId, secretAccessKey, sessionToken ?? 'none'].every(
    (value) => typeof value === 'string' && /^[\x21-\x7e]+$/.test(value),
  );
  if (!isComplete) throw new CredentialError(`the answer of ${what} has no valid keys`);
  return { accessKeyId, secretAccessKey, sessionToken } as AwsCredentials;
}

/** Parses a URL that secrets are sent to or come from. Throws CredentialError unless it is encrypted or stays on a trusted host. */
function serviceUrl(what: string, text: string, isTrusted: (host: string) => boolean): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isAllowed = url?.protocol === 'https:' || (url?.protocol === 'http:' && isTrusted(url.hostname));
  if (url !== null && isAllowed) return url;
  throw new CredentialError(`the URL of ${what} is not an https:// URL`);
}

async function ask(
  what: string,
  request: Omit<HttpRequest, 'maxBytes'>,
  env: OutboundOptions['env'],
  timeoutMs: number,
  signal: AbortSignal,
): Promise<string> {
  const asking = TimeLimit.run(timeoutMs, signal, (limited) =>
    exchangeHttp({ ...request, maxBytes: MAX_AWS_ANSWER_BYTES }, { env }, limited),
  );
  const response = await asking.catch((error: unknown) => {
    if (signal.aborted) throw error;
    throw new CredentialError(`cannot reach ${what}: ${failureReason(error)}`);
  });
  if (isSuccess(response.status)) return response.text;
  throw new CredentialError(`${what} answered with HTTP ${response.status}`);
}

function readToken(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw new CredentialError(`cannot read the AWS token file ${path}: ${(error as Error).message}`);
  }
}
