import { request } from 'node:http';
import { connect as connectTcp } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { writeToken } from '../../../../src/relay/service/access/access-tokens.ts';
import { Seal } from '../../../../src/relay/service/access/sealed-text.ts';
import { RequestBudget } from '../../../../src/relay/service/http/calls.ts';
import {
  MAX_BODY_BYTES,
  MAX_REQUEST_COUNTS,
  REQUEST_PERIOD_MS,
  REQUESTS_PER_PERIOD,
} from '../../../../src/relay/service/limits.ts';
import { Environment, post, SECRET, someKey, startTestRelay, TestPeer, token } from './relay-fixture.ts';

const PROFILE = 'noise_hybrid_ik_v1';

test('registers an executor, connects a harness, and validates its authorization once', async () => {
  const environment = new Environment((await startTestRelay()).url);
  const [executorKey, harnessKey] = [someKey(), someKey()];
  const registered = await environment.register(executorKey);
  expect(registered).toEqual({
    status: 200,
    body: {
      environment_id: 'env-1',
      url: expect.stringMatching(/^ws:\/\/127\.0\.0\.1:\d+\/cloud\/rendezvous\/env-1\?ticket=[\w.-]+$/),
      security_profile: PROFILE,
      executor_registration_id: expect.stringMatching(/^[\w-]{36}$/),
    },
  });
  expect(JSON.stringify(registered.body)).not.toContain(environment.executorToken);
  await TestPeer.connect(registered.body.url);

  const { body, status } = await environment.connect(harnessKey);
  const registrationId = registered.body.executor_registration_id;
  expect({ status, body }).toEqual({
    status: 200,
    body: {
      environment_id: 'env-1',
      url: expect.stringMatching(/^ws:/),
      security_profile: PROFILE,
      executor_registration_id: registrationId,
      executor_public_key: executorKey.toJSON(),
      harness_key_authorization: expect.stringMatching(/^[\w-]{43}$/),
    },
  });
  const authorization = body.harness_key_authorization;
  const valid = await environment.validate(registrationId, harnessKey, authorization);
  expect(valid).toEqual({ status: 200, body: { valid: true } });
  const again = await environment.validate(registrationId, harnessKey, authorization);
  expect(again).toEqual({ status: 200, body: { valid: false } });
});

test('an authorization is invalid for another key, registration or environment', async () => {
  const { url } = await startTestRelay();
  const environment = new Environment(url);
  const other = new Environment(url, 'env-2');
  const key = someKey();
  const executor = await environment.register(someKey());
  await TestPeer.connect(executor.body.url);
  const registrationId = executor.body.executor_registration_id;
  const authorization = async () => (await environment.connect(key)).body.harness_key_authorization;
  const judged = async (answer: Promise<{ body: unknown }>) => (await answer).body;

  const stranger = environment.validate(registrationId, someKey(), await authorization());
  expect(await judged(stranger)).toEqual({ valid: false });
  const elsewhere = environment.validate('another', key, await authorization());
  expect(await judged(elsewhere)).toEqual({ valid: false });
  const forOther = await authorization();
  expect(await judged(other.validate(registrationId, key, forOther))).toEqual({ valid: false });
  expect(await judged(environment.validate(registrationId, key, forOther))).toEqual({ valid: true });
});

test('reports an environment without a connected executor as offline', async () => {
  const environment = new Environment((await startTestRelay()).url);
  const offline = {
    status: 409,
    body: { error: { code: 'environment_offline', message: expect.any(String) } },
  };
  expect(await environment.connect(someKey())).toEqual(offline);
  await environment.register(someKey());
  expect(await environment.connect(someKey())).toEqual(offline);
});

test('identifies a returning executor by its key, and refuses a replaced one', async () => {
  const environment = new Environment((await startTestRelay()).url);
  const [first, second] = [someKey(), someKey()];
  const registrationOf = async (key: typeof first) =>
    (await environment.register(key)).body.executor_registration_id;
  const id = await registrationOf(first);
  expect(await registrationOf(first)).toBe(id);
  expect(await registrationOf(second)).not.toBe(id);
  expect(await environment.register(first)).toEqual({
    status: 409,
    body: { error: { code: 'executor_superseded', message: expect.any(String) } },
  });
});

const key = someKey().toJSON();

test.each<[string, string, unknown, number, string]>([
  ['no object', 'register', '[]', 400, 'invalid_request'],
  ['no JSON', 'register', '{', 400, 'invalid_request'],
  ['another profile', 'register', { security_profile: 'x' }, 400, 'unsupported_security_profile'],
  ['no key', 'register', { security_profile: PROFILE }, 400, 'invalid_key'],
  ['more in a key', 'connect', { harness_public_key: { ...key, more: 1 } }, 400, 'invalid_key'],
  ['another suite', 'connect', { harness_public_key: { ...key, suite: 'x' } }, 400, 'invalid_key'],
  [
    'a short key',
    'connect',
    { harness_public_key: { ...key, x25519_public_key: 'AAAA' } },
    400,
    'invalid_key',
  ],
  ['no authorization', 'validate', { executor_registration_id: 'x' }, 400, 'invalid_request'],
  [
    'a long authorization',
    'validate',
    { executor_registration_id: 'x', harness_key_authorization: 'x'.repeat(4_097), harness_public_key: key },
    400,
    'invalid_request',
  ],
  ['a large body', 'connect', { padding: 'x'.repeat(MAX_BODY_BYTES) }, 413, 'request_too_large'],
])('rejects %s', async (_what, call, body, status, code) => {
  const environment = new Environment((await startTestRelay()).url);
  const bearer = call === 'connect' ? environment.harnessToken : environment.executorToken;
  const answer = await post(`${environment.url}/${call}`, bearer, body);
  expect(answer).toEqual({ status, body: { error: { code, message: expect.any(String) } } });
});

test('ignores unknown members', async () => {
  const environment = new Environment((await startTestRelay()).url);
  const answer = await post(`${environment.url}/register`, environment.executorToken, {
    security_profile: PROFILE,
    executor_public_key: key,
    from_the_future: {},
  });
  expect(answer.status).toBe(200);
});

test('refuses a body that is not declared as JSON or is too large', async () => {
  const environment = new Environment((await startTestRelay()).url);
  const typed = await post(`${environment.url}/connect`, environment.harnessToken, '{}', {
    'content-type': 'text/plain',
  });
  expect(typed.status).toBe(415);
  const chunked = await fetch(`${environment.url}/connect`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${environment.harnessToken}` },
    body: new ReadableStream({
      start(controller) {
        controller.enqueue(new Uint8Array(MAX_BODY_BYTES));
        controller.enqueue(new Uint8Array(1));
        controller.close();
      },
    }),
    duplex: 'half',
  } as RequestInit);
  expect(chunked.status).toBe(413);
});

test('refuses a missing, unknown or insufficient token', async () => {
  const { url } = await startTestRelay();
  const environment = new Environment(url);
  const statusOf = async (call: string, bearer: string | null) =>
    (await post(`${environment.url}/${call}`, bearer, { harness_public_key: key })).status;
  expect(await statusOf('connect', null)).toBe(401);
  expect(await statusOf('connect', 'guess')).toBe(401);
  expect(await statusOf('connect', `${environment.harnessToken}A`)).toBe(401);
  expect(await statusOf('connect', environment.executorToken)).toBe(403);
  expect(await statusOf('register', environment.harnessToken)).toBe(403);
  expect(await statusOf('validate', environment.harnessToken)).toBe(403);
  expect(await statusOf('connect', token('harness', 'env-2'))).toBe(403);
  const foreign = writeToken(new Seal('another secret of thirty-two bytes!!'), {
    id: 'x',
    role: 'harness',
    environmentId: 'env-1',
    expiresAt: null,
  });
  expect(await statusOf('connect', foreign)).toBe(401);
});

test('refuses an expired token', async () => {
  let nowMs = 1_000_000;
  const environment = new Environment((await startTestRelay({ now: () => nowMs })).url);
  const bearer = writeToken(new Seal(SECRET), {
    id: 'short',
    role: 'harness',
    environmentId: 'env-1',
    expiresAt: 1_001,
  });
  const call = () => post(`${environment.url}/connect`, bearer, { harness_public_key: key });
  expect((await call()).status).toBe(409);
  nowMs = 1_001_000;
  expect(await call()).toEqual({
    status: 401,
    body: { error: { code: 'unauthorized', message: 'the token is expired' } },
  });
});

test('a ticket cannot be used as a token', async () => {
  const environment = new Environment((await startTestRelay()).url);
  const { body } = await environment.register(someKey());
  const ticket = new URL(body.url).searchParams.get('ticket');
  const answer = await post(`${environment.url}/connect`, ticket, { harness_public_key: key });
  expect(answer.status).toBe(401);
});

test.each([
  '/cloud/environment/env%201/connect',
  '/cloud/environment//connect',
  `/cloud/environment/${'x'.repeat(65)}/connect`,
  '/cloud/environment/env-1/other',
  '/cloud/environment/env-1/connect/',
])('does not treat %s as a call', async (path) => {
  const { url } = await startTestRelay();
  const answer = await post(`${url}${path}`, token('harness'), {});
  expect(answer).toEqual({
    status: 404,
    body: { error: { code: 'not_found', message: expect.any(String) } },
  });
});

test('refuses other methods and browsers', async () => {
  const environment = new Environment((await startTestRelay()).url);
  const got = await fetch(`${environment.url}/connect`);
  expect([got.status, got.headers.get('allow')]).toEqual([405, 'POST']);
  await got.arrayBuffer();
  const browser = await post(
    `${environment.url}/connect`,
    environment.harnessToken,
    {},
    { origin: 'http://x' },
  );
  expect(browser.status).toBe(403);
});

test('limits the requests of one environment without affecting another', async () => {
  // Freezes the clock: on a busy machine this many requests may take longer than a period.
  const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now());
  onTestFinished(() => clock.mockRestore());
  const { url } = await startTestRelay();
  const [busy, other] = [new Environment(url), new Environment(url, 'env-2')];
  const statuses: number[] = [];
  for (let index = 0; index <= REQUESTS_PER_PERIOD; index++) {
    // A refused body counts like a valid one.
    statuses.push((await post(`${busy.url}/connect`, busy.harnessToken, '{}')).status);
  }
  expect(statuses.filter((status) => status === 400)).toHaveLength(REQUESTS_PER_PERIOD);
  expect(statuses.at(-1)).toBe(429);
  expect((await post(`${other.url}/connect`, other.harnessToken, '{}')).status).toBe(400);
  // An executor may give up permanently after a 429. Harnesses must not cause that.
  expect((await busy.register(someKey())).status).toBe(200);
  expect((await busy.validate('any', someKey(), 'any')).status).toBe(200);
});

test('closes a request that takes too long', async () => {
  const { url } = await startTestRelay();
  const { port } = new URL(url);
  const socket = connectTcp(Number(port), '127.0.0.1');
  socket.write('POST /cloud/environment/env-1/connect HTTP/1.1\r\nhost: x\r\n');
  const ended = new Promise<string>((resolve) => {
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('close', () => resolve(text));
  });
  expect(await ended).toContain('408');
});

test('answers health probes, and metrics only with a token', async () => {
  const { url } = await startTestRelay({ metrics: true });
  const statusOf = async (path: string, bearer?: string) => {
    const response = await fetch(`${url}${path}`, {
      headers: bearer === undefined ? {} : { authorization: `Bearer ${bearer}` },
    });
    return [response.status, await response.text()] as const;
  };
  expect((await statusOf('/healthz'))[0]).toBe(200);
  expect((await statusOf('/readyz'))[0]).toBe(200);
  expect((await statusOf('/metrics'))[0]).toBe(401);
  expect((await statusOf('/metrics', token('harness')))[0]).toBe(403);
  await new Environment(url).connect(someKey());
  const [status, text] = await statusOf('/metrics', token('metrics', null));
  expect(status).toBe(200);
  expect(text).toContain('exec_server_relay_requests_total{call="connect",status="409"} 1');
  expect(text).toContain('exec_server_relay_store_available 1');
  expect(text).not.toContain('env-1');
});

test('does not serve metrics by default', async () => {
  const { url } = await startTestRelay();
  const { status } = await fetch(`${url}/metrics`, {
    headers: { authorization: `Bearer ${token('metrics', null)}` },
  });
  expect(status).toBe(404);
});

test('serves all paths below the path of the public URL', async () => {
  const relay = await startTestRelay({ publicUrl: 'https://relay.example/some/base' });
  expect(relay.url).toBe('https://relay.example/some/base');
  // With a public URL the relay does not return its address. The log has the port.
  const port = /"port":(\d+)/.exec(relay.lines.join(''))?.[1];
  expect(port).toBeDefined();
  const environment = new Environment(`http://127.0.0.1:${port}/some/base`);
  const { body, status } = await environment.register(someKey());
  expect(status).toBe(200);
  expect(body.url).toMatch(/^wss:\/\/relay\.example\/some\/base\/cloud\/rendezvous\/env-1\?ticket=/);
  const local = body.url.replace('wss://relay.example', `ws://127.0.0.1:${port}`);
  await TestPeer.connect(local);
  expect((await environment.connect(someKey())).body.url).toMatch(/^wss:\/\/relay\.example\/some\/base\//);
});

test('survives a client that disconnects during its request', async () => {
  const { url, lines } = await startTestRelay();
  const sent = request(`${url}/cloud/environment/env-1/connect`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'content-length': '100',
      authorization: `Bearer ${token('harness')}`,
    },
  });
  sent.on('error', () => {});
  await new Promise<void>((resolve) => sent.write('{', () => resolve()));
  sent.destroy();
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  expect(lines.filter((line) => line.includes('"error"'))).toEqual([]);
});

test('delays unknown tokens increasingly, without affecting other clients', async () => {
  const environment = new Environment((await startTestRelay()).url);
  const call = (bearer: string) => post(`${environment.url}/connect`, bearer, { harness_public_key: key });
  for (let guess = 0; guess < 4; guess++) await call(`guess-${guess}`);
  const order: string[] = [];
  await Promise.all([
    call('guess').then(({ status }) => order.push(`guess ${status}`)),
    call(environment.harnessToken).then(({ status }) => order.push(`token ${status}`)),
  ]);
  expect(order).toEqual(['token 409', 'guess 401']);
});

test('limits the number of request counters and evicts the oldest', () => {
  let nowMs = 0;
  const budget = new RequestBudget(() => nowMs);
  const spendAll = (name: string) => {
    for (let count = 0; count < REQUESTS_PER_PERIOD; count++) expect(budget.spend(name)).toBe(true);
  };
  spendAll('first');
  spendAll('second');
  expect([budget.spend('first'), budget.spend('second')]).toEqual([false, false]);
  for (let index = 2; index <= MAX_REQUEST_COUNTS; index++) budget.spend(`${index}`);
  expect([budget.spend('second'), budget.spend('first')]).toEqual([false, true]);
  nowMs = REQUEST_PERIOD_MS;
  expect(budget.spend('2')).toBe(true);
});
