import { expect, onTestFinished, test } from 'vitest';
import { type RelayOptions, RelaySource } from '../../../../src/relay/harness/relay-source.ts';
import { createIdentity } from '../../../../src/relay/noise/identity.ts';
import type { ExecutorLinkOptions } from '../../../../src/relay/stream/executor-link.ts';
import { CloseCode } from '../../../../src/transport/transport.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { RecordedEvents } from '../../transport/recorded-events.ts';
import { type Asked, type FakeAnswer, FakeRegistry } from '../fake-registry.ts';
import { executorIdentity, REGISTRATION, TestExecutor } from '../link-fixture.ts';

const delays: number[] = [];

/** Records the delay instead of waiting for it. */
async function sleep(ms: number): Promise<void> {
  delays.push(ms);
  await new Promise((resolve) => setImmediate(resolve));
}

const { signal } = new AbortController();
const OFFLINE = { status: 409, body: { error: { code: 'environment_offline', message: 'not now' } } };

/** Starts a registry whose URL leads directly to an executor, without a rendezvous. */
async function open(
  script: (registry: FakeRegistry) => FakeAnswer[] = () => [],
  options: Partial<ExecutorLinkOptions> = {},
) {
  delays.length = 0;
  const registry = await FakeRegistry.open();
  const answers = script(registry);
  registry.answer = () => answers.shift() ?? bundle(registry);
  const executor = new TestExecutor(options);
  onTestFinished(() => executor.link.close({ code: 1000, reason: '' }));
  const source = newSource(registry);
  registry.accepted = (socket) => executor.link.attach(socket, REGISTRATION);
  return { registry, source, executor, answers };
}

function newSource(registry: FakeRegistry, options: Partial<RelayOptions> = {}): RelaySource {
  const base = { registryUrl: registry.url, environmentId: 'env-1', auth: 'token-1', env: {} };
  return new RelaySource({ ...base, ...options }, { sleep });
}

function bundle(registry: FakeRegistry, identity = executorIdentity): FakeAnswer {
  return registry.registration(REGISTRATION, {
    executor_public_key: identity.publicKey,
    harness_key_authorization: 'authorization-1',
  });
}

test('sends messages in both directions', async () => {
  const { registry, source, executor } = await open();
  const transport = await source.open(signal);
  const events = RecordedEvents.of(transport);
  transport.send('question');
  const served = executor.accepted[0]!;
  await served.events.untilMessages(1);
  served.transport.send('answer');
  await events.untilMessages(1);
  expect([served.events.messages, events.messages]).toEqual([['question'], ['answer']]);
  expect(registry.upgrades[0]).not.toHaveProperty('authorization');
  transport.close({ code: CloseCode.normal, reason: '' });
  await events.untilClosed();
});

test('retries while the executor is offline, then fails with a hint', async () => {
  const { registry, source } = await open(() => Array(5).fill(OFFLINE));
  await expect(source.open(signal)).rejects.toMatchObject({
    name: 'ClientError',
    kind: 'connectFailed',
    retryable: true,
    hint: 'check that the executor runs: it is not connected to the relay',
  });
  expect(registry.asked).toHaveLength(5);
  for (const [index, base] of [500, 1_000, 2_000, 4_000].entries()) {
    expect(delays[index]).toBeGreaterThanOrEqual(base);
    expect(delays[index]).toBeLessThanOrEqual(base * 1.5);
  }
  const transport = await source.open(signal);
  const keys = registry.asked.map(({ body }: Asked) => JSON.stringify(body.harness_public_key));
  expect(new Set(keys).size).toBe(1);
  await RecordedEvents.of(transport).until(() => true);
  transport.close({ code: CloseCode.normal, reason: '' });
});

test.each([401, 403, 404, 409])('does not retry after HTTP %i', async (status) => {
  const { registry, source } = await open(() => [{ status, body: '' }]);
  await expect(source.open(signal)).rejects.toMatchObject({ name: 'ClientError', retryable: false });
  expect(registry.asked).toHaveLength(1);
});

test('asks for a new URL once when the rendezvous answers 401', async () => {
  const { registry, source } = await open((fake) => {
    fake.refusals.push(401, 401);
    return [];
  });
  await expect(source.open(signal)).rejects.toMatchObject({ kind: 'connectFailed', retryable: true });
  expect(registry.asked).toHaveLength(2);
  registry.refusals.push(401);
  const transport = await source.open(signal);
  const events = RecordedEvents.of(transport);
  transport.close({ code: CloseCode.normal, reason: '' });
  await events.untilClosed();
  expect(registry.asked).toHaveLength(4);
});

test('fails when the rendezvous refuses the URL with another status', async () => {
  const { registry, source } = await open((fake) => {
    fake.refusals.push(403);
    return [];
  });
  await expect(source.open(signal)).rejects.toThrow('cannot reach the rendezvous');
  expect(registry.asked).toHaveLength(1);
});

test('reports a refusal by the executor as retryable', async () => {
  const { source } = await open(() => [], { validate: async () => false });
  await expect(source.open(signal)).rejects.toMatchObject({ kind: 'connectFailed', retryable: true });
});

test('reports the close reason of the rendezvous on one line', async () => {
  const { registry, source } = await open();
  registry.accepted = (socket) =>
    socket.close({ code: CloseCode.tryAgainLater, reason: 'the executor\nis gone' });
  await expect(source.open(signal)).rejects.toMatchObject({
    kind: 'connectFailed',
    retryable: true,
    message: 'lost the connection to the rendezvous: the executor?is gone',
  });
});

async function connected(...answers: FakeAnswer[]) {
  const fixture = await open();
  const transport = await fixture.source.open(signal);
  const events = RecordedEvents.of(transport);
  onTestFinished(() => transport.close({ code: CloseCode.normal, reason: '' }));
  fixture.answers.push(...answers);
  return { ...fixture, transport, events };
}

test('reconnects after a lost connection and resumes the stream', async () => {
  const fixture = await connected(OFFLINE, 'cut');
  fixture.registry.cutSockets();
  fixture.transport.send('meanwhile');
  await fixture.executor.accepted[0]!.events.untilMessages(1);
  expect(fixture.executor.accepted).toHaveLength(1);
  expect(fixture.registry.asked).toHaveLength(4);
  expect(fixture.events.log).toEqual([]);
});

test('backs off when new connections are lost immediately', async () => {
  const fixture = await connected();
  const attach = fixture.registry.accepted;
  let left = 6;
  fixture.registry.accepted = (socket, request) => {
    if (left-- > 0) socket.drop();
    else attach(socket, request);
  };
  fixture.registry.cutSockets();
  fixture.transport.send('at last');
  await fixture.executor.accepted[0]!.events.untilMessages(1);
  expect(delays).toHaveLength(6);
  for (const [index, base] of [500, 1_000, 2_000, 4_000, 5_000, 5_000].entries()) {
    expect(delays[index]).toBeGreaterThanOrEqual(base);
  }
});

test('ends the stream when another executor has taken over', async () => {
  const fixture = await connected();
  fixture.answers.push(bundle(fixture.registry, createIdentity()));
  fixture.registry.cutSockets();
  expect(await fixture.events.untilClosed()).toMatchObject({ reason: 'another executor has taken over' });
});

test('ends the stream when the registry refuses to reconnect', async () => {
  const fixture = await connected({ status: 404, body: '' });
  fixture.registry.cutSockets();
  expect((await fixture.events.untilClosed()).reason).toContain('HTTP 404');
});

test('stops reconnecting when the stream is closed', async () => {
  const fixture = await connected('silence');
  fixture.registry.cutSockets();
  await waitFor('the request', () => fixture.registry.asked.length === 2);
  fixture.transport.close({ code: CloseCode.normal, reason: '' });
  await fixture.events.untilClosed();
  await waitFor('the end of the request', () => fixture.registry.connectionCount === 0);
  expect(fixture.registry.asked).toHaveLength(2);
});

test.each([{ registryUrl: 'ws://h' }, { environmentId: 'a/b' }, { auth: 'two words' }])(
  'rejects the invalid options %j',
  async (options) => {
    const registry = await FakeRegistry.open();
    expect(() => newSource(registry, options)).toThrow(expect.objectContaining({ kind: 'config' }));
  },
);
