import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { awsCredentials, awsRegion } from '../../../../src/relay/direct/aws-credentials.ts';
import { waitFor } from '../../../support/wait-for.ts';

type Env = Readonly<Record<string, string>>;

/** A home folder with AWS files, and variables that use it and no metadata service. */
function home(files: Readonly<Record<string, string>> = {}): Env {
  const path = mkdtempSync(join(tmpdir(), 'aws-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  mkdirSync(join(path, '.aws'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(path, '.aws', name), text);
  return { HOME: path, PATH: process.env.PATH!, AWS_EC2_METADATA_DISABLED: 'true' };
}

const keys = (env: Env, profile: string | null = null) =>
  awsCredentials({ profile, region: 'eu-west-1', env }, new AbortController().signal);

/** A server that records requests and answers with the text for their path, or with 404. */
async function service(answers: Readonly<Record<string, string>>) {
  const requests: { request: IncomingMessage; body: string }[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text) => (body += text));
    request.on('end', () => {
      requests.push({ request, body });
      const text = answers[request.url!];
      response.writeHead(text === undefined ? 404 : 200).end(text);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

const ENV_KEYS = { AWS_ACCESS_KEY_ID: 'EK', AWS_SECRET_ACCESS_KEY: 'ES' };
const JSON_KEYS = JSON.stringify({ AccessKeyId: 'JK', SecretAccessKey: 'JS', Token: 'JT' });
const FROM_JSON = { accessKeyId: 'JK', secretAccessKey: 'JS', sessionToken: 'JT' };

const FILES = {
  credentials: `
# a comment
[default]
aws_access_key_id = DK
aws_secret_access_key = DS

[ci]
aws_access_key_id=CK
aws_secret_access_key=CS/=+ ; a comment
aws_session_token = CT
`,
  config: `
[default]
region = eu-north-1
[profile ci]
region = us-east-2
aws_access_key_id = overridden
s3 =
  region = nested
[profile process]
credential_process = printf '{"Version":1,"AccessKeyId":"%s","SecretAccessKey":"JS","SessionToken":"JT"}' JK
[profile broken]
credential_process = echo secret-output; exit 3
[profile role]
role_arn = arn:aws:iam::1:role/x
source_profile = ci
[profile sso]
sso_session = mine
[profile empty]
region = x
`,
};

test('environment keys come before the default profile, and a named profile before both', async () => {
  const env = { ...home(FILES), ...ENV_KEYS };
  expect(await keys(env)).toEqual({ accessKeyId: 'EK', secretAccessKey: 'ES', sessionToken: null });
  expect(await keys({ ...env, AWS_SESSION_TOKEN: 'ET' })).toMatchObject({ sessionToken: 'ET' });
  const ci = { accessKeyId: 'CK', secretAccessKey: 'CS/=+', sessionToken: 'CT' };
  expect(await keys(env, 'ci')).toEqual(ci);
  expect(await keys({ ...home(FILES), AWS_PROFILE: 'ci' })).toEqual(ci);
  expect(await keys(home(FILES))).toMatchObject({ accessKeyId: 'DK' });
});

test('the files may be elsewhere', async () => {
  const { HOME } = home(FILES);
  const env = { ...home(), AWS_SHARED_CREDENTIALS_FILE: join(HOME!, '.aws', 'credentials') };
  expect(await keys(env, 'ci')).toMatchObject({ accessKeyId: 'CK' });
});

test('runs the credential_process of a profile', async () => {
  expect(await keys(home(FILES), 'process')).toEqual(FROM_JSON);
});

test('an abort kills everything that a credential_process started', async () => {
  const { HOME, ...env } = home();
  const pidFile = join(HOME!, 'pid');
  const command = `sleep 1000 & echo $! > ${pidFile}.new; mv ${pidFile}.new ${pidFile}; wait`;
  writeFileSync(join(HOME!, '.aws', 'config'), `[profile slow]\ncredential_process = ${command}\n`);
  const stop = new AbortController();
  const source = { profile: 'slow', region: 'r', env: { ...env, HOME: HOME! } };
  const asking = awsCredentials(source, stop.signal);
  const pid = Number(
    await waitFor('the program', () => existsSync(pidFile) && readFileSync(pidFile, 'utf8')),
  );
  stop.abort(new Error('stopped'));
  await expect(asking).rejects.toThrow('stopped');
  await waitFor('its end', () => !existsSync(`/proc/${pid}`) || isZombie(pid));
});

/** A profile whose command leaves a process in another session, which keeps the output open. */
function lingering(more: string) {
  const { HOME, ...env } = home();
  const pidFile = join(HOME!, 'pid');
  const command = `setsid sh -c 'echo $$ > ${pidFile}.new; mv ${pidFile}.new ${pidFile}; exec sleep 1000' & ${more}`;
  writeFileSync(join(HOME!, '.aws', 'config'), `[profile lingering]\ncredential_process = ${command}\n`);
  const pid = async () =>
    Number(await waitFor('the program', () => existsSync(pidFile) && readFileSync(pidFile, 'utf8')));
  onTestFinished(async () => void process.kill(await pid(), 'SIGKILL'));
  return { source: { profile: 'lingering', region: 'r', env: { ...env, HOME: HOME! } }, pid };
}

test('a credential_process may leave a process that keeps its output open', async () => {
  const { source } = lingering(`echo '${JSON_KEYS}'`);
  expect(await awsCredentials(source, new AbortController().signal)).toEqual(FROM_JSON);
});

test('an abort ends the wait for a credential_process whose output stays open', async () => {
  const { source, pid } = lingering('wait');
  const stop = new AbortController();
  const asking = awsCredentials(source, stop.signal);
  await pid();
  stop.abort(new Error('stopped'));
  await expect(asking).rejects.toThrow('stopped');
});

function isZombie(pid: number): boolean {
  return / Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
}

test('refuses a credential_process that prints too much', async () => {
  const env = home({ config: '[profile loud]\ncredential_process = head -c 1000000 /dev/zero\n' });
  await expect(keys(env, 'loud')).rejects.toThrow(/^the credential_process of the AWS profile failed \(SIG/);
});

test.each([
  ['broken', /^the credential_process of the AWS profile failed \(3\)$/],
  ['nobody', /^the AWS profile 'nobody' is not in the shared AWS files$/],
  ['empty', /^the AWS profile 'empty' has no keys$/],
  ['role', /^the AWS profile uses a role with source_profile or credential_source, which needs the AWS SDK/],
  ['sso', /^the AWS profile uses single sign-on, which needs the AWS SDK; set credential_process/],
])('refuses the profile %s', async (profile, message) => {
  await expect(keys({ ...home(FILES), ...ENV_KEYS }, profile)).rejects.toMatchObject({
    name: 'CredentialError',
    message: expect.stringMatching(message),
  });
});

test('asks the endpoint of a container, with its token', async () => {
  const { url, requests } = await service({ '/creds': JSON_KEYS });
  const variables = home();
  const env = { ...variables, AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/creds` };
  expect(await keys({ ...env, AWS_CONTAINER_AUTHORIZATION_TOKEN: 'tok' })).toEqual(FROM_JSON);
  const tokenFile = join(variables.HOME!, 'token');
  writeFileSync(tokenFile, 'from-file\n');
  expect(await keys({ ...env, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: tokenFile })).toEqual(FROM_JSON);
  expect(requests.map(({ request }) => request.headers.authorization)).toEqual(['tok', 'from-file']);
});

test('asks no container endpoint on another host without TLS', async () => {
  const env = { ...home(), AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://192.0.2.1/creds' };
  await expect(keys(env)).rejects.toThrow('the URL of the AWS container endpoint is not an https:// URL');
});

test('exchanges the token of a web identity', async () => {
  const xml =
    '<R><Credentials><AccessKeyId>JK</AccessKeyId><SecretAccessKey>JS</SecretAccessKey><SessionToken>JT</SessionToken></Credentials></R>';
  const { url, requests } = await service({ '/': xml });
  const variables = home();
  const tokenFile = join(variables.HOME!, 'token');
  writeFileSync(tokenFile, 'jwt\n');
  const env = {
    ...variables,
    AWS_ENDPOINT_URL_STS: url,
    AWS_ROLE_ARN: 'arn:aws:iam::1:role/x',
    AWS_WEB_IDENTITY_TOKEN_FILE: tokenFile,
    AWS_ROLE_SESSION_NAME: 'me',
  };
  expect(await keys(env)).toEqual(FROM_JSON);
  expect(Object.fromEntries(new URLSearchParams(requests[0]!.body))).toEqual({
    Action: 'AssumeRoleWithWebIdentity',
    Version: '2011-06-15',
    RoleArn: 'arn:aws:iam::1:role/x',
    RoleSessionName: 'me',
    WebIdentityToken: 'jwt',
  });
  await expect(keys({ ...env, AWS_ENDPOINT_URL_STS: 'http://192.0.2.1' })).rejects.toThrow(
    'the URL of AWS Security Token Service is not an https:// URL',
  );
});

test('asks the metadata service of the machine last', async () => {
  const roles = '/latest/meta-data/iam/security-credentials/';
  const { url, requests } = await service({
    '/latest/api/token': 'session',
    [roles]: 'my-role\n',
    [`${roles}my-role`]: JSON_KEYS,
  });
  const env = { ...home(), AWS_EC2_METADATA_DISABLED: '', AWS_EC2_METADATA_SERVICE_ENDPOINT: url };
  expect(await keys(env)).toEqual(FROM_JSON);
  expect(
    requests.map(({ request }) => [request.method, request.headers['x-aws-ec2-metadata-token']]),
  ).toEqual([
    ['PUT', undefined],
    ['GET', 'session'],
    ['GET', 'session'],
  ]);
});

test('the error without keys names the sources', async () => {
  const { url } = await service({});
  const env = { ...home(), AWS_EC2_METADATA_DISABLED: '', AWS_EC2_METADATA_SERVICE_ENDPOINT: url };
  await expect(keys(env)).rejects.toThrow(/^no AWS credentials: set AWS_ACCESS_KEY_ID/);
});

test.each([
  ['not JSON', 'is not JSON'],
  ['{"AccessKeyId":"a"}', 'has no valid keys'],
  ['{"AccessKeyId":"a","SecretAccessKey":"b\\nc"}', 'has no valid keys'],
])('refuses the answer %s without showing it', async (answer, message) => {
  const { url } = await service({ '/creds': answer });
  const env = { ...home(), AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/creds` };
  await expect(keys(env)).rejects.toThrow(`the answer of the AWS container endpoint ${message}`);
});

test('takes the region from the flag, the variables or the profile', () => {
  const env = home(FILES);
  expect(awsRegion('given', 'ci', { ...env, AWS_REGION: 'r' })).toBe('given');
  expect(awsRegion(null, 'ci', { ...env, AWS_REGION: 'r', AWS_DEFAULT_REGION: 'd' })).toBe('r');
  expect(awsRegion(null, 'ci', { ...env, AWS_DEFAULT_REGION: 'd' })).toBe('d');
  expect(awsRegion(null, 'ci', env)).toBe('us-east-2');
  expect(awsRegion(null, null, env)).toBe('eu-north-1');
  expect(() => awsRegion(' ', null, home())).toThrow(/^no AWS region: use --aws-region/);
});
