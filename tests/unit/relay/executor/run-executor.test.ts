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

const { pauses } = vi.hoisted(() => ({ pauses: [] as number[] }));
// The pauses themselves are looked at, not waited for.
vi.mock('../../../../src/base/abort.ts', async (original) => ({
  ...(await original<object>()),
  sleep: async (ms: number) => {
    pauses.push(ms);
    await new Promise((resolve) => setImmediate(resolve));
  },
}));

async function start(
  script: (registry: FakeRegistry) => FakeAnswer[],
  options: Partial<ExecutorOptions> = {},
) {
  pauses.length = 0;
  const registry = await FakeRegistry.open();
  const answers = script(registry);
  registry.answer = () => answers.shift() ?? registry.registration();
  const lines: string[] = [];
  const run = () => {
    const executor = new RunningExecutor({
      registryUrl: registry.url,
      environmentId: 'env-1',
      auth: bearerAuth('token-1'),
      env: {},
      log: createLogger('debug', (line) => lines.push(line)),
      accept: () => {},
      ...options,
    });
    onTestFinished(() => executor.close());
    return executor;
  };
  return { registry, run, lines };
}

test('passing failures of the registry are waited out, ever longer', async () => {
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
    expect(pauses[index]).toBeGreaterThanOrEqual(base * 500);
    expect(pauses[index]).toBeLessThanOrEqual(base * 1_000);
  }
  expect(lines.join()).not.toContain('sig=secret');
  expect(registry.upgrades[0]).toMatchObject({ 'x-request-id': expect.stringMatching(/^req_[0-9a-f]{32}$/) });
  expect(registry.upgrades[0]).not.toHaveProperty('authorization');
  executor.close();
  await executor.ended;
});

test.each([401, 403, 404, 409, 302])('HTTP %i ends the executor', async (status) => {
  const { run } = await start(() => [{ status, body: '' }]);
  await expect(run().ended).rejects.toMatchObject({ name: 'RegistryError', status });
});

test('a lost connection is opened again with the same URL', async () => {
  const { registry, run } = await start(() => []);
  run();
  await waitFor('a connection', () => registry.sockets.length === 1);
  registry.sockets[0]!.drop();
  await waitFor('another one', () => registry.sockets.length === 2);
  expect(registry.actions()).toEqual(['register']);
  expect(pauses).toHaveLength(1);
});

test('why a connection was closed is in the log', async () => {
  const { registry, run, lines } = await start(() => []);
  registry.accepted = (socket) => {
    if (registry.sockets.length === 1) {
      socket.close({ code: CloseCode.policyViolation, reason: 'the token was revoked' });
    }
  };
  run();
  await waitFor('the loss', () =>
    lines.some((line) => line.includes('the connection to the rendezvous is lost')),
  );
  const loss = lines.map((line) => JSON.parse(line)).find(({ message }) => /is lost/.test(message));
  expect(loss).toMatchObject({ code: CloseCode.policyViolation, reason: 'the token was revoked' });
});

test('a rendezvous that is not ready is asked again with the same URL', async () => {
  const { registry, run } = await start((scripted) => {
    scripted.refusals.push(503, 429, 500);
    return [];
  });
  run();
  await waitFor('a connection', () => registry.sockets.length === 1);
  expect([registry.actions(), pauses.length]).toEqual([['register'], 3]);
});

test('a URL that is refused is replaced by a new registration with the same key', async () => {
  const { registry, run } = await start((scripted) => {
    scripted.refusals.push(403, 404);
    return [];
  });
  run();
  await waitFor('a connection', () => registry.sockets.length === 1);
  expect([registry.actions(), pauses.length]).toEqual([['register', 'register', 'register'], 2]);
  const keys = registry.asked.map(({ body }) => JSON.stringify(body.executor_public_key));
  expect(new Set(keys).size).toBe(1);
});

test('too large a message costs the connection', async () => {
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
  [{ environmentId: 'a/b' }, 'the id of an environment'],
])('%j makes no sense', async (options, why) => {
  const { run } = await start(() => [], options);
  expect(run).toThrow(why);
});

/** An executor that is connected, and a harness that has its socket to itself. */
async function meet(valid: () => unknown, accept: ExecutorOptions['accept'] = () => {}) {
  const { registry, run } = await start(() => [], { accept });
  const register = registry.answer;
  registry.answer = (asked) => (asked.action === 'validate' ? { body: { valid: valid() } } : register(asked));
  const executor = run();
  await waitFor('a connection', () => registry.sockets.length === 1);
  const executorKey = NoisePublicKey.parse(registry.asked[0]!.body.executor_public_key);
  const connect = () => HarnessLink.connect(registry.sockets[0]!, { ...harnessOptions, executorKey });
  return { registry, executor, connect };
}

test('a harness that the registry vouches for is let in', async () => {
  const peers: RelayPeer[] = [];
  const { registry, connect } = await meet(
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

test('a harness that the registry does not vouch for is refused', async () => {
  const accept = vi.fn();
  const { connect } = await meet(() => 'true', accept);
  await expect(connect()).rejects.toMatchObject({ kind: 'refused' });
  expect(accept).not.toHaveBeenCalled();
});

test('an executor that is about to end lets nobody in, and asks nobody', async () => {
  const { registry, executor, connect } = await meet(() => true);
  executor.drain();
  await expect(connect()).rejects.toMatchObject({ kind: 'refused' });
  expect(registry.actions()).toEqual(['register']);
});

test('nor a harness whose judgement was under way', async () => {
  const accept = vi.fn();
  let drain = () => {};
  const { executor, connect } = await meet(() => {
    drain();
    return true;
  }, accept);
  drain = () => executor.drain();
  // The end may come before the harness has read that it was let in.
  const ending = connect().then(async ({ transport }) => {
    await RecordedEvents.of(transport).untilClosed();
    throw new RelayError('refused', 'closed');
  });
  await expect(ending).rejects.toMatchObject({ kind: 'refused' });
  expect(accept).not.toHaveBeenCalled();
});
