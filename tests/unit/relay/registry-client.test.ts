import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { MAX_REGISTRY_ANSWER_BYTES } from '../../../src/relay/limits.ts';
import { bearerAuth } from '../../../src/relay/registry-auth.ts';
import {
  checkedEnvironmentId,
  parseRegistryUrl,
  RegistryClient,
} from '../../../src/relay/registry-client.ts';
import { proxyServer, webServer } from '../../support/web-servers.ts';
import { type FakeAnswer, FakeRegistry } from './fake-registry.ts';
import { executorKey, failure, harnessKey, openRegistry, signal } from './registry-fixture.ts';

const bundle = (registry: FakeRegistry, more: object = {}) =>
  registry.registration('registration-1', {
    executor_public_key: executorKey,
    harness_key_authorization: 'authorization-1',
    ...more,
  });

test("registers with the reference's request, below the path of the registry URL", async () => {
  const { registry, client } = await openRegistry('/some/base/');
  registry.answer = () => registry.registration('registration-1', { extra: 1 });
  expect(await client.register(executorKey, signal)).toEqual({
    url: `${registry.url.replace('http', 'ws')}/ws?sig=secret`,
    registrationId: 'registration-1',
  });
  expect(registry.asked).toMatchObject([
    {
      path: '/some/base/cloud/environment/env-1/register',
      headers: {
        authorization: 'Bearer token-1',
        'chatgpt-account-id': 'me',
        'content-type': 'application/json',
        accept: '*/*',
      },
      body: { security_profile: 'noise_hybrid_ik_v1', executor_public_key: executorKey.toJSON() },
    },
  ]);
});

test('returns a bundle with all members', async () => {
  const { registry, client } = await openRegistry();
  registry.answer = () => bundle(registry);
  const { executorKey: key, authorization } = await client.connect(harnessKey, signal);
  expect([key.equals(executorKey), authorization]).toEqual([true, 'authorization-1']);
  expect(registry.asked[0]!.body).toEqual({ harness_public_key: harnessKey.toJSON() });
});

test('authorizes a harness only for the value true', async () => {
  const { registry, client } = await openRegistry();
  const claim = { streamId: 'stream-1', harnessKey, registrationId: 'r', authorization: 'a' };
  const answers: FakeAnswer[] = [
    { body: { valid: true } },
    { body: { valid: false } },
    { body: { valid: 1 } },
  ];
  registry.answer = () => answers.shift()!;
  expect([
    await client.validate(claim, signal),
    await client.validate({ ...claim, streamId: 'line\nend' }, signal),
    await client.validate(claim, signal),
  ]).toEqual([true, false, false]);
  expect(registry.asked.map(({ headers }) => headers['x-codex-noise-stream-id'])).toEqual([
    'stream-1',
    undefined,
    'stream-1',
  ]);
  expect(registry.asked[0]!.body).toEqual({
    executor_registration_id: 'r',
    harness_public_key: harnessKey.toJSON(),
    harness_key_authorization: 'a',
  });
});

test.each([
  [{ status: 500, body: 'oops' }, true],
  [{ status: 503, body: '' }, true],
  [{ status: 408, body: '' }, true],
  [{ status: 429, body: '' }, true],
  [{ status: 409, body: { error: { code: 'environment_offline' } } }, true],
  ['cut' as const, true],
  [{ status: 409, body: { error: { code: 'superseded' } } }, false],
  [{ status: 302, body: '' }, false],
  [{ status: 401, body: '' }, false],
  [{ status: 404, body: '' }, false],
  [{ body: 'no JSON' }, false],
  [{ body: [] }, false],
  [{ body: {} }, false],
  [{ body: `"${'x'.repeat(MAX_REGISTRY_ANSWER_BYTES)}"` }, false],
])('after %j the error is retryable: %s', async (answer, retryable) => {
  expect(await failure(answer)).toMatchObject({ name: 'RegistryError', retryable });
});

test('rejects a response that switches protocols', async () => {
  const server = createServer((socket) => {
    socket.once('data', () => socket.write('HTTP/1.1 101 \r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n'));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const url = parseRegistryUrl(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const client = new RegistryClient({ url, environmentId: 'env-1', auth: bearerAuth('token-1'), env: {} });
  await expect(client.connect(harnessKey, signal)).rejects.toThrow('without a response');
});

test("includes the registry's error text without terminal control characters", async () => {
  const { message, code } = await failure({
    status: 403,
    body: { error: { code: 'not_yours', message: 'go\u001b[31m away' } },
  });
  expect(message).toMatch(
    /^the registry 127\.0\.0\.1:\d+ answered connect with HTTP 403 \(not_yours: go\?\[31m away\)$/,
  );
  expect(code).toBe('not_yours');
});

test('handles a long error page of a gateway', async () => {
  const page = 'x'.repeat(2 * MAX_REGISTRY_ANSWER_BYTES);
  expect(await failure({ status: 503, body: page })).toMatchObject({ status: 503, retryable: true });
  expect(await failure({ status: 200, body: page })).toMatchObject({
    message: 'the response of the registry is too long',
    retryable: false,
  });
});

test.each([
  [{ environment_id: 'other' }, 'it is for another environment'],
  [{ security_profile: 'none' }, 'its security profile is not noise_hybrid_ik_v1'],
  [{ url: 'http://h' }, "'url' is not a websocket URL"],
  [{ executor_registration_id: ' ' }, "'executor_registration_id' is missing"],
  [{ harness_key_authorization: 'x'.repeat(4_097) }, "'harness_key_authorization' is too long"],
  [{ executor_public_key: { suite: 'x' } }, 'a public key must be an object of three members'],
])('rejects a response with %j', async (more, why) => {
  const { registry, client } = await openRegistry();
  registry.answer = () => bundle(registry, more);
  await expect(client.connect(harnessKey, signal)).rejects.toThrow(
    `invalid response of the registry to connect: ${why}`,
  );
});

test('aborts the request with the signal', async () => {
  const { registry, client } = await openRegistry();
  registry.answer = () => 'silence';
  const giveUp = new AbortController();
  const asking = client.connect(harnessKey, giveUp.signal);
  giveUp.abort(new Error('enough'));
  await expect(asking).rejects.toThrow();
});

test('limits a registration to 10 s, the body included', async () => {
  let begun = () => {};
  const beginning = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const server = await webServer((_request, response) => {
    response.writeHead(200).write('{');
    begun();
  });
  onTestFinished(() => server.close());
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const url = parseRegistryUrl(server.url);
  const client = new RegistryClient({ url, environmentId: 'env-1', auth: bearerAuth('token-1'), env: {} });
  const ended = vi.fn();
  const registering = client.register(executorKey, signal).finally(ended);
  const failing = expect(registering).rejects.toThrow('no answer within 10 s');
  await beginning;
  await vi.advanceTimersByTimeAsync(9_999);
  expect(ended).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  await failing;
});

test('aborts while waiting for a credential', async () => {
  const registry = await FakeRegistry.open();
  const auth = { headers: () => new Promise<never>(() => {}) };
  const url = new URL(registry.url);
  const client = new RegistryClient({ url, environmentId: 'env-1', auth, env: {} });
  const giveUp = new AbortController();
  const asking = client.register(executorKey, giveUp.signal);
  giveUp.abort(new Error('enough'));
  await expect(asking).rejects.toThrow('enough');
  await expect(client.register(executorKey, giveUp.signal)).rejects.toThrow('enough');
  expect(registry.asked).toEqual([]);
});

test('uses a proxy with its credentials', async () => {
  const proxy = await proxyServer();
  onTestFinished(() => proxy.close());
  const registry = await FakeRegistry.open();
  registry.answer = () => bundle(registry);
  const client = new RegistryClient({
    url: parseRegistryUrl(`http://0.0.0.0:${registry.port}`, { allowPlain: true }),
    environmentId: 'env-1',
    auth: bearerAuth('token-1'),
    env: { HTTP_PROXY: proxy.url.replace('//', '//me:1%30%@') },
  });
  await client.connect(harnessKey, signal);
  const authorization = `Basic ${Buffer.from('me:10%').toString('base64')}`;
  expect(proxy.seen).toEqual([{ line: `CONNECT 0.0.0.0:${registry.port}`, authorization }]);
});

describe('the registry URL', () => {
  test.each(['https://h', ' https://h/base/ ', 'http://127.0.0.1:1', 'http://localhost', 'http://[::1]:1/x'])(
    'is valid: %j',
    (text) => expect(parseRegistryUrl(text)).toBeInstanceOf(URL),
  );

  test.each([
    '',
    'h',
    'ws://h',
    'https://h?x',
    'https://h#x',
    'https://me@h',
    'http://h',
    'http://127.evil.example',
  ])('is rejected: %j', (text) => expect(() => parseRegistryUrl(text)).toThrow(TypeError));
});

test.each([
  ['', 'is empty'],
  [' \t', 'is empty'],
  ['a/b', 'must not'],
  ['.', 'must not'],
  ['..', 'must not'],
  ['a?b', 'must not'],
  ['a%2fb', 'must not'],
  ['a\nb', 'must not'],
  ['\ud800', 'must not'],
  ['x'.repeat(513), 'has more than 512 characters'],
])('rejects %j as an environment id: it %s', (id, why) => {
  expect(() => checkedEnvironmentId(id)).toThrow(new RegExp(`^the environment id ${why}`));
});

test('percent-encodes an environment id, and keeps its registration', async () => {
  const registry = await FakeRegistry.open();
  const environmentId = checkedEnvironmentId(` ccarenv_b64_${'x'.repeat(100)}= ä `);
  const url = parseRegistryUrl(registry.url);
  const client = new RegistryClient({ url, environmentId, auth: bearerAuth('token-1'), env: {} });
  registry.answer = () => registry.registration('r', { environment_id: environmentId });
  await client.register(executorKey, signal);
  const path = `/cloud/environment/ccarenv_b64_${'x'.repeat(100)}=%20%C3%A4/register`;
  expect(registry.asked.map((asked) => asked.path)).toEqual([path]);
});

test('sends requests to the host of the registry URL even if its path begins with two slashes', async () => {
  const { registry, client } = await openRegistry('//elsewhere.example/');
  registry.answer = () => registry.registration();
  await client.register(executorKey, signal);
  expect(registry.asked.map(({ path }) => path)).toEqual([
    '//elsewhere.example/cloud/environment/env-1/register',
  ]);
});

test.each([
  [{ error: { code: 'c', message: 'm' } }, 'c', '(c: m)'],
  [{ detail: { code: 'c', message: 'm' } }, 'c', '(c: m)'],
  [{ code: 'c' }, null, '({"code":"c"})'],
  [{ detail: 'text' }, null, '({"detail":"text"})'],
  ['plain', null, '(plain)'],
])('reads the error body %j', async (body, code, shown) => {
  const error = await failure({ status: 400, body });
  expect(error.code).toBe(code);
  expect(error.message.endsWith(`HTTP 400 ${shown}`)).toBe(true);
});
