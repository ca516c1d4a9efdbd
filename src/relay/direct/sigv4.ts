import { createHash, createHmac } from 'node:crypto';

/** Keys of an AWS identity. */
export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Of temporary keys; null for keys without an end. */
  readonly sessionToken: string | null;
}

/** What a signature is valid for. */
interface SigningScope {
  readonly region: string;
  readonly service: string;
}

/** A request to be signed. */
export interface SignableRequest {
  readonly method: 'GET' | 'POST';
  readonly url: URL;
  /** Headers that are signed besides `host` and the date, in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/**
 * Signs a request with AWS Signature Version 4 and returns the headers to add to it.
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
 */
export function signRequest(
  { method, url, headers = {}, body = '' }: SignableRequest,
  { accessKeyId, secretAccessKey, sessionToken }: AwsCredentials,
  { region, service }: SigningScope,
  now: Date,
): Readonly<Record<string, string>> {
  const time = now.toISOString().replace(/\.\d+|[-:]/g, '');
  const added = {
    'x-amz-date': time,
    ...(sessionToken !== null && { 'x-amz-security-token': sessionToken }),
  };
  const signed = Object.entries({ ...headers, host: url.host, ...added }).sort(byName);
  const names = signed.map(([name]) => name).join(';');
  const canonical = [
    method,
    canonicalPath(url.pathname),
    canonicalQuery(url),
    ...signed.map(([name, value]) => `${name}:${value.trim().replace(/ +/g, ' ')}`),
    '',
    names,
    sha256(body),
  ].join('\n');
  const scope = [time.slice(0, 8), region, service, 'aws4_request'];
  const text = ['AWS4-HMAC-SHA256', time, scope.join('/'), sha256(canonical)].join('\n');
  const key = scope.reduce<string | Buffer>(hmac, `AWS4${secretAccessKey}`);
  const credential = `${accessKeyId}/${scope.join('/')}`;
  const signature = hmac(key, text).toString('hex');
  return {
    ...added,
    authorization: `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${names}, Signature=${signature}`,
  };
}

/** Escapes the path a second time, without empty segments. A URL has no `.` and `..` segments. */
function canonicalPath(path: string): string {
  return path
    .replace(/\/{2,}/g, '/')
    .split('/')
    .map(percentEncode)
    .join('/');
}

function canonicalQuery({ searchParams }: URL): string {
  return [...searchParams]
    .map(([name, value]): [string, string] => [percentEncode(name), percentEncode(value)])
    .sort((a, b) => byName(a, b) || compare(a[1], b[1]))
    .map(([name, value]) => `${name}=${value}`)
    .join('&');
}

/** Escapes everything but letters, digits and - _ . ~ */
function percentEncode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function byName(a: readonly [string, string], b: readonly [string, string]): number {
  return compare(a[0], b[0]);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
