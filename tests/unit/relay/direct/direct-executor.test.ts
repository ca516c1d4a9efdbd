import { readFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { createLogger } from '../../../../src/observability/log.ts';
import { DirectExecutor, type DirectExecutorOptions } from '../../../../src/relay/direct/direct-executor.ts';
import { TestClient } from '../../../../src/testing/index.ts';
import type { Transport } from '../../../../src/transport/transport.ts';
import { DirectClient } from '../../../support/direct-client.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { proxyServer } from '../../../support/web-servers.ts';

const KEYS = { AWS_ACCESS_KEY_ID: 'AK', AWS_SECRET_ACCESS_KEY: 'very-secret', AWS_SESSION_TOKEN: 'session' };

/** An executor that reads what the client sends. */
function start(client: DirectClient, changes: Partial<DirectExecutorOptions> = {}) {
  const delays: number[] = [];
  const lines: string[] = [];
  const options: DirectExecutorOptions = {
    registryUrl: `http://${client.host}/base/`,
    environmentId: 'env-1',
    aws: { profile: null, region: 'us-west-2', service: null },
    env: KEYS,
    log: createLogger('debug', (line) => lines.push(line)),
    maxMessageBytes: 1024 * 1024,
    accept: (transport) => new TestClient(transport).closed,
    ...changes,
  };
  const sleep = async (ms: number) => {
    delays.push(ms);
    await new Promise((resolve) => setImmediate(resolve));
  };
  const executor = new DirectExecutor(options, { sleep });
  executor.ended.catch(() => {});
  onTestFinished(() => executor.close());
  return { executor, delays, lines };
}

const REGISTER = 'POST /base/cloud/environment/env-1/direct/register';
const UPGRADE = 'GET /direct/ws';

test('signs the registration and the upgrade, and keeps secrets out of the log', async () => {
  const client = await DirectClient.open();
  const { executor, lines } = start(client);
  await client.connection();
  expect(client.log()).toEqual([REGISTER, UPGRADE]);
  const [registration, upgrade] = client.requests;
  expect(registration).toMatchObject({ body: '{"transport":"direct_jsonrpc_v1"}' });
  expect(registration!.headers.authorization).toMatch(
    /^AWS4-HMAC-SHA256 Credential=AK\/\d{8}\/us-west-2\/execute-api\/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature=[0-9a-f]{64}$/,
  );
  expect(upgrade!.headers.authorization).toContain('SignedHeaders=host;x-amz-date;x-amz-security-token,');
  expect(upgrade!.headers['x-amz-security-token']).toBe('session');
  expect(upgrade!.target).toBe('/direct/ws?b=2&a=1%20x&sig=a/b');
  await waitFor('the log line', () => lines.join().includes('connected to the client'));
  executor.close();
  await executor.ended;
  expect(lines.join()).not.toMatch(/very-secret|session|sig=/);
});

test('connects to the same URL again after a lost connection and after temporary refusals', async () => {
  const client = await DirectClient.open();
  client.refusals.push(302, 408, 429, 500, 503);
  const { delays } = start(client);
  await (await client.connection()).close();
  await client.connection();
  expect(client.log()).toEqual([REGISTER, ...Array(7).fill(UPGRADE)]);
  for (const [index, base] of [500, 1_000, 2_000, 4_000, 5_000, 5_000].entries()) {
    expect(delays[index]).toBeGreaterThanOrEqual(base);
    expect(delays[index]).toBeLessThanOrEqual(base * 1.5);
  }
});

test('registers again after HTTP 409', async () => {
  const client = await DirectClient.open();
  client.refusals.push(409);
  start(client);
  await client.connection();
  expect(client.log()).toEqual([REGISTER, UPGRADE, REGISTER, UPGRADE]);
});

test.each([400, 401, 403, 404, 410])('ends when the upgrade is refused with HTTP %i', async (status) => {
  const client = await DirectClient.open();
  client.refusals.push(status);
  const { executor } = start(client);
  await expect(executor.ended).rejects.toMatchObject({ name: 'RegistryError', status });
  expect(client.log()).toEqual([REGISTER, UPGRADE]);
});

test.each([302, 401, 403, 429, 500, 503])('ends when the registration gets HTTP %i', async (status) => {
  const client = await DirectClient.open();
  client.registrations.push({ status, body: { error: { code: 'nope', message: 'go away' } } });
  const { executor } = start(client);
  await expect(executor.ended).rejects.toMatchObject({
    status,
    message: `the registry ${client.host} answered direct/register with HTTP ${status} (nope: go away)`,
  });
  expect(client.log()).toEqual([REGISTER]);
});

test.each([
  ['the session token', 'x-amz-security-token:SESSION/TOKEN+1==', ' (should be x-amz-security-token:***)'],
  ['the session token, percent-encoded', 'X-Amz-Security-Token=SESSION%2fTOKEN%2B1%3D%3D', ''],
  ['the signature', null, ' (should be ***)'],
])('hides in a refusal %s', async (_what, text, shown) => {
  const client = await DirectClient.open();
  const body = ({ authorization }: IncomingHttpHeaders) =>
    `should be ${text ?? /Signature=(\w+)/.exec(authorization!)![1]}`;
  client.registrations.push({ status: 403, body });
  const { executor } = start(client, { env: { ...KEYS, AWS_SESSION_TOKEN: 'SESSION/TOKEN+1==' } });
  await expect(executor.ended).rejects.toMatchObject({
    message: `the registry ${client.host} answered direct/register with HTTP 403${shown}`,
  });
});

test('does not log a close reason that repeats the session token', async () => {
  const client = await DirectClient.open();
  const reasons = ['no SESSION%2FTOKEN', 'see you'];
  const accept = async (transport: Transport) => {
    transport.close({ code: 1000, reason: '' });
    return { code: 1000, reason: reasons.shift() ?? 'more' };
  };
  const { lines } = start(client, { env: { ...KEYS, AWS_SESSION_TOKEN: 'SESSION/TOKEN' }, accept });
  await waitFor('the second log line', () => lines.join().includes('see you'));
  expect(lines.filter((line) => line.includes('lost the connection'))[0]).toContain('"reason":""');
  expect(lines.join()).not.toContain('SESSION');
});

test.each<[Record<string, unknown>, RegExp]>([
  [{ environment_id: 'env-2' }, /for another environment/],
  [{ transport: 'noise' }, /its transport is not direct_jsonrpc_v1/],
  [{ registration_id: ' ' }, /'registration_id' is missing/],
  [{ url: '' }, /'url' is missing/],
  [{ url: 'http://127.0.0.1/x' }, /'url' is not a websocket URL/],
  [{ url: 'ws://127.0.0.1/a b' }, /'url' is not a websocket URL/],
  [{ url: 'ws://192.0.2.1/x' }, /'url' does not begin with wss:/],
])('refuses a registration with %j', async (changes, message) => {
  const client = await DirectClient.open();
  client.registrations.push({ status: 200, body: client.registration(changes) });
  const { executor } = start(client);
  await expect(executor.ended).rejects.toThrow(message);
  expect(client.log()).toEqual([REGISTER]);
});

test('removes user info and fragment of the URL', async () => {
  const client = await DirectClient.open();
  const url = `ws://user:word@${client.host}/direct/ws#part`;
  client.registrations.push({ status: 200, body: client.registration({ url }) });
  start(client);
  await client.connection();
  expect(client.requests[1]).toMatchObject({ target: '/direct/ws' });
  expect(client.requests[1]!.headers.authorization).toMatch(/^AWS4/);
});

test('sends nothing to a registry without TLS on another host', async () => {
  const client = await DirectClient.open();
  expect(() => start(client, { registryUrl: 'http://192.0.2.1' })).toThrow(/must begin with https:/);
  expect(() => start(client, { aws: { profile: null, region: 'r', service: ' ' } })).toThrow(
    /service is empty/,
  );
});

test('ends without keys, before anything is sent', async () => {
  const client = await DirectClient.open();
  const env = { HOME: '/nowhere', AWS_EC2_METADATA_DISABLED: 'true' };
  const { executor } = start(client, { env });
  await expect(executor.ended).rejects.toMatchObject({ name: 'CredentialError' });
  expect(client.log()).toEqual([]);
});

test('does not connect again while draining', async () => {
  const client = await DirectClient.open();
  const { executor } = start(client);
  const connection = await client.connection();
  executor.drain();
  await connection.close();
  await executor.ended;
  expect(client.log()).toEqual([REGISTER, UPGRADE]);
});

const fixture = (name: string) =>
  readFileSync(new URL(`../../../fixtures/localhost-${name}.pem`, import.meta.url), 'utf8');
const CERTIFICATE = { cert: fixture('cert'), key: fixture('key') };

test('connects over TLS, and sends nothing to a server that it does not trust', async () => {
  const client = await DirectClient.open(CERTIFICATE);
  const registryUrl = `https://${client.host}/base`;
  const { executor } = start(client, { registryUrl });
  await expect(executor.ended).rejects.toThrow(/^cannot reach the registry 127\.0\.0\.1:\d+: self-signed/);
  expect(client.log()).toEqual([]);
  start(client, { registryUrl, tls: { ca: CERTIFICATE.cert } });
  await client.connection();
  expect(client.log()).toEqual([REGISTER, UPGRADE]);
});

test('connects through a proxy', async () => {
  const proxy = await proxyServer();
  onTestFinished(() => proxy.close());
  const client = await DirectClient.open(CERTIFICATE);
  // Not a loopback address, so that the proxy is used.
  const host = `0.0.0.0:${client.port}`;
  client.registrations.push({ status: 200, body: client.registration({ url: `wss://${host}/direct/ws` }) });
  start(client, {
    registryUrl: `https://${host}/base`,
    env: { ...KEYS, HTTPS_PROXY: proxy.url },
    tls: { rejectUnauthorized: false },
  });
  await client.connection();
  expect(client.log()).toEqual([REGISTER, UPGRADE]);
  expect(client.requests[1]!.headers.host).toBe(host);
  expect(proxy.seen).toHaveLength(2);
});
