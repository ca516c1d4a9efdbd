import { expect, onTestFinished, test, vi } from 'vitest';
import { createLogger } from '../../../../src/observability/log.ts';
import { RelayError } from '../../../../src/relay/errors.ts';
import { type ExecutorOptions, RunningExecutor } from '../../../../src/relay/executor/run-executor.ts';
import { NoisePublicKey } from '../../../../src/relay/noise/public-key.ts';
import { bearerAuth } from '../../../../src/relay/registry-auth.ts';
import type { RelayPeer } from '../../../../src/relay/stream/executor-link.ts';
import { HarnessLink } from '../../../../src/relay/stream/harness-link.ts';
import { CloseCode } from '../../../../src/transport/transport.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { RecordedEvents } from '../../transport/recorded-events.ts';
import { type FakeAnswer, FakeRegistry } from '../fake-registry.ts';
import { harnessIdentity, harnessOptions } from '../link-fixture.ts';

const delays: number[] = [];

/** Records the delay instead of waiting for it. */
async function sleep(ms: number): Promise<void> {
  delays.push(ms);
  await new Promise((resolve) => setImmediate(resolve));
}

async function start(
  script: (registry: FakeRegistry) => FakeAnswer[],
  options: Partial<ExecutorOptions> = {},
  now?: () => number,
) {
  delays.length = 0;
  const registry = await FakeRegistry.open();
  const answers = script(registry);
  registry.answer = () => answers.shift() ?? registry.registration();
  const lines: string[] = [];
  const run = () => {
    const base: ExecutorOptions = {
      registryUrl: registry.url,
      environmentId: 'env-1',
      auth: bearerAuth('token-1'),
      env: {},
      log: createLogger('debug', (line) => lines.push(line)),
      accept: () => {},
    };
    const executor = new RunningExecutor({ ...base, ...options }, { sleep, ...(now && { now }) });
    onTestFinished(() => executor.close());
    return executor;
  };
  return { registry, run, lines };
}

test('retries temporary failures of the registry with growing delays', async () => {
  const { registry, run, lines } = await start(() => [
    { status: 503, body: '' },
    'cut',
    { status: 429, body: '' },
    { status: 500, body: '' },
    { status: 500, body: '' },
    { status: 500, body: '' },
    { status: 500, body: '' },
  ]);
  const executor = run();
  await waitFor('a connection', () => registry.sockets.length === 1);
  expect(registry.actions()).toEqual(Array(8).fill('register'));
  for (const [index, base] of [1, 2, 4, 8, 16, 30, 30].entries()) {
    expect(delays[index]).toBeGreaterThanOrEqual(base * 500);
    expect(delays[index]).toBeLessThanOrEqual(base * 1_000);
  }
  expect(lines.join()).not.toContain('sig=secret');
  expect(registry.upgrades[0]).toMatchObject({ 'x-request-id': expect.stringMatching(/^req_[0-9a-f]{32}$/) });
  expect(registry.upgrades[0]).not.toHaveProperty('authorization');
  executor.close();
  await executor.ended;
});

test('retries a registration conflict, and a registry that cannot sign in, after shorter delays', async () => {
  const conflict = { status: 503, body: { error: { code: 'registration_conflict' } } };
  const unavailable = { status: 502, body: { detail: { code: 'authentication_service_unavailable' } } };
  const { registry, run } = await start(() => [
    conflict,
    unavailable,
    conflict,
    conflict,
    conflict,
    conflict,
  ]);
  run();
  await waitFor('a connection', () => registry.sockets.length === 1);
  for (const [index, base] of [500, 1_000, 2_000, 4_000, 5_000, 5_000].entries()) {
    expect(delays[index]).toBeGreaterThanOrEqual(base);
    expect(delays[index]).toBeLessThanOrEqual(base * 1.5);
  }
});

test.each([
  [0, [1_000, 2_000, 4_000, 8_000]],
  [119_999, [1_000, 2_000, 4_000, 8_000]],
  [120_000, [1_000, 1_000, 1_000, 1_000]],
])('after connections of %i ms reconnects within %j ms', async (lifeMs, limits) => {
  let now = 0;
  const { registry, run, lines } = await start(
    () => [],
    {},
    () => now,
  );
  const connections = () => lines.filter((line) => line.includes('connected to the rendezvous')).length;
  run();
  for (const count of limits.keys()) {
    await waitFor('a connection', () => connections() === count + 1);
    now += lifeMs;
    registry.sockets[count]!.drop();
  }
  await waitFor('the last connection', () => connections() === limits.length + 1);
  for (const [index, limit] of limits.entries()) {
    expect(delays[index]).toBeGreaterThanOrEqual(limit / 2);
    expect(delays[index]).toBeLessThanOrEqual(limit);
  }
});

test.each([401, 403, 404, 409, 302])('ends at HTTP %i', async (status) => {
  const { run } = await start(() => [{ status, body: '' }]);
  await expect(run().ended).rejects.toMatchObject({ name: 'RegistryError', status });
});

test('reconnects with the same URL after a lost connection', async () => {
  const { registry, run } = await start(() => []);
  run();
  await waitFor('a connection', () => registry.sockets.length === 1);
  registry.sockets[0]!.drop();
  await waitFor('another one', () => registry.sockets.length === 2);
  expect(registry.actions()).toEqual(['register']);
  expect(delays).toHaveLength(1);
});

test('logs why the connection was closed', async () => {
  const { registry, run, lines } = await start(() => []);
  registry.accepted = (socket) => {
    if (registry.sockets.length === 1) {
      socket.close({ code: CloseCode.policyViolation, reason: 'the token was revoked' });
    }
  };
  run();
  await waitFor('the loss', () =>
    lines.some((line) => line.includes('lost the connection to the rendezvous')),
  );
  const loss = lines
    .map((line) => JSON.parse(line))
    .find(({ message }) => /lost the connection/.test(message));
  expect(loss).toMatchObject({ code: CloseCode.policyViolation, reason: 'the token was revoked' });
});

test('hides the credential of the URL in the reason of a closed connection', async () => {
  const { registry, run, lines } = await start((fake) => {
    const { body } = fake.registration() as { body: { url: string } };
    return [{ body: { ...body, url: `${body.url}&key=very%2Fsecret-key` } }];
  });
  const reasons = ['no very/secret-key', 'no very%2Fsecret-key'];
  registry.accepted = (socket) => {
    const reason = reasons.shift();
    if (reason !== undefined) socket.close({ code: CloseCode.policyViolation, reason });
  };
  run();
  await waitFor('a connection that stays', () => registry.sockets.length === 3);
  const losses = lines
    .map((line) => JSON.parse(line))
    .filter(({ code }) => code === CloseCode.policyViolation);
  expect(losses.map(({ reason }) => reason)).toEqual(['no ***', '']);
});

test('retries with the same URL when the rendezvous is not ready', async () => {
  const { registry, run } = await start((fake) => {
    fake.refusals.push(503, 429, 500);
    return [];
  });
  run();
  await waitFor('a connection', () => registry.sockets.length === 1);
  expect([registry.actions(), delays.length]).toEqual([['register'], 3]);
});

test('registers again with the same key when the rendezvous refuses the URL', async () => {
  const { registry, run } = await start((fake) => {
    fake.refusals.push(403, 404);
    return [];
  });
  run();
  await waitFor('a connection', () => registry.sockets.length === 1);
  expect([registry.actions(), delays.length]).toEqual([['register', 'register', 'register'], 2]);
  const keys = registry.asked.map(({ body }) => JSON.stringify(body.executor_public_key));
  expect(new Set(keys).size).toBe(1);
});

test('closes the connection after a message that is too large, and reconnects', async () => {
  const { registry, run } = await start(() => []);
  run();
  await waitFor('a connection', () => registry.sockets.length === 1);
  const closed = vi.fn();
  registry.sockets[0]!.open({ frame: () => {}, drained: () => {}, closed });
  registry.sockets[0]!.send(Buffer.alloc(262_144));
  registry.sockets[0]!.send(Buffer.alloc(262_145));
  await waitFor('the end', () => closed.mock.calls.length === 1);
  expect(closed.mock.calls[0]![0]).toMatchObject({ code: 1009 });
  await waitFor('another connection', () => registry.sockets.length === 2);
});

test.each([
  [{ registryUrl: 'http://elsewhere' }, 'must begin with https://'],
  [{ environmentId: 'a/b' }, 'the environment id must not'],
])('rejects the invalid options %j', async (options, why) => {
  const { run } = await start(() => [], options);
  expect(run).toThrow(why);
});

/** Connects an executor, and a harness that is the only peer of its socket. */
async function connectPeers(valid: () => unknown, accept: ExecutorOptions['accept'] = () => {}) {
  const { registry, run } = await start(() => [], { accept });
  const register = registry.answer;
  registry.answer = (asked) => (asked.action === 'validate' ? { body: { valid: valid() } } : register(asked));
  const executor = run();
  await waitFor('a connection', () => registry.sockets.length === 1);
  const executorKey = NoisePublicKey.parse(registry.asked[0]!.body.executor_public_key);
  const connect = () => HarnessLink.connect(registry.sockets[0]!, { ...harnessOptions, executorKey });
  return { registry, executor, connect };
}

test('accepts a harness that the registry validates', async () => {
  const peers: RelayPeer[] = [];
  const { registry, connect } = await connectPeers(
    () => true,
    (transport, peer) => {
      peers.push(peer);
      RecordedEvents.of(transport);
      transport.send('welcome');
    },
  );
  const { transport, streamId } = await connect();
  const events = RecordedEvents.of(transport);
  await events.untilMessages(1);
  expect(events.messages).toEqual(['welcome']);
  expect(peers.map(({ harnessKey }) => harnessKey.equals(harnessIdentity.publicKey))).toEqual([true]);
  expect(registry.asked[1]).toMatchObject({
    action: 'validate',
    headers: { 'x-codex-noise-stream-id': streamId },
    body: {
      executor_registration_id: 'registration-1',
      harness_public_key: harnessIdentity.publicKey.toJSON(),
      harness_key_authorization: 'authorization-1',
    },
  });
  transport.close({ code: CloseCode.normal, reason: '' });
});

test('refuses a harness that the registry does not validate', async () => {
  const accept = vi.fn();
  const { connect } = await connectPeers(() => 'true', accept);
  await expect(connect()).rejects.toMatchObject({ kind: 'refused' });
  expect(accept).not.toHaveBeenCalled();
});

test('refuses harnesses while draining, without asking the registry', async () => {
  const { registry, executor, connect } = await connectPeers(() => true);
  executor.drain();
  await expect(connect()).rejects.toMatchObject({ kind: 'refused' });
  expect(registry.actions()).toEqual(['register']);
});

test('refuses a harness whose validation was running when draining started', async () => {
  const accept = vi.fn();
  let drain = () => {};
  const { executor, connect } = await connectPeers(() => {
    drain();
    return true;
  }, accept);
  drain = () => executor.drain();
  // The stream may end before the harness has read the answer to its handshake.
  const ending = connect().then(async ({ transport }) => {
    await RecordedEvents.of(transport).untilClosed();
    throw new RelayError('refused', 'closed');
  });
  await expect(ending).rejects.toMatchObject({ kind: 'refused' });
  expect(accept).not.toHaveBeenCalled();
});
