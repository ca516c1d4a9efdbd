import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createLogger } from '../../../../src/observability/log.ts';
import { PEER_LOST_REASON, resumeMarker } from '../../../../src/relay/frames/frame-markers.ts';
import { MAX_FRAME_BYTES } from '../../../../src/relay/limits.ts';
import {
  EXECUTOR_TICKET_MS,
  HARNESS_TICKET_MS,
  MAX_HARNESSES_PER_ENVIRONMENT,
  MAX_STREAMS_PER_HARNESS,
  REQUESTS_PER_PERIOD,
} from '../../../../src/relay/service/limits.ts';
import { RelayMetrics } from '../../../../src/relay/service/records/relay-metrics.ts';
import { RelayRecords } from '../../../../src/relay/service/records/relay-records.ts';
import { Rendezvous } from '../../../../src/relay/service/rendezvous/rendezvous.ts';
import { MemoryStore } from '../../../../src/relay/service/store/memory-store.ts';
import { connectFrameSocket } from '../../../../src/transport/frame-socket.ts';
import { UpgradeRefusedError } from '../../../../src/transport/open-websocket.ts';
import { connectWebSocket } from '../../../../src/transport/websocket.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { RecordedEvents } from '../../transport/recorded-events.ts';
import { FakeSocket } from './fake-socket.ts';
import { RedisServer } from './redis-server.ts';
import { Environment, SECRET, someKey, startTestRelay, TestPeer, token } from './relay-fixture.ts';

/** Returns the status of a refused upgrade. */
async function refusalOf(url: string): Promise<number> {
  const error = await connectFrameSocket(url).then(
    (socket) => {
      socket.drop();
      return null;
    },
    (failure: unknown) => failure,
  );
  if (error instanceof UpgradeRefusedError) return error.status;
  throw new Error(`the upgrade was not refused: ${error}`);
}

/** Waits until the relay has a free slot for the websocket. */
function untilAccepted(url: string): Promise<unknown> {
  return waitFor('a free slot', () =>
    connectFrameSocket(url).then(
      (socket) => {
        socket.drop();
        return true;
      },
      () => false,
    ),
  );
}

async function environmentOf(...config: Parameters<typeof startTestRelay>): Promise<Environment> {
  return new Environment((await startTestRelay(...config)).url);
}

/** Vitest compares texts in a fraction of the time that it takes for bytes. */
function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

test('forwards bytes unchanged and in order, each stream to its harness', async () => {
  const environment = await environmentOf();
  const executor = await environment.executor();
  const harnesses = [await environment.harness(), await environment.harness()] as const;
  const streams = [randomUUID(), 'any text, even ünïcode'];
  const sent: Uint8Array[][] = [[], []];
  for (const [index, harness] of harnesses.entries()) sent[index]!.push(harness.resume(streams[index]!));
  for (let seq = 0; seq < 50; seq++) {
    for (const [index, harness] of harnesses.entries()) {
      sent[index]!.push(harness.record(streams[index]!, seq, randomBytes(1 + seq * 100)));
    }
  }
  await executor.hasReceived(102);
  for (const [index, stream] of streams.entries()) {
    const arrived = executor.received.filter((_, at) => executor.frames[at]!.streamId === stream);
    expect(arrived.map(hex)).toEqual(sent[index]!.map(hex));
  }

  const answers = streams.map((stream) =>
    [0, 1, 2].map((seq) => hex(executor.record(stream, seq, randomBytes(60_000)))),
  );
  for (const [index, harness] of harnesses.entries()) {
    await harness.hasReceived(3);
    expect(harness.received.map(hex)).toEqual(answers[index]);
  }
});

test('forwards the largest frame, and closes the connection for one byte more', async () => {
  const environment = await environmentOf();
  const executor = await environment.executor();
  const harness = await environment.harness();
  const overhead = harness.resume('s').length;
  let frame = harness.record('s', 0, new Uint8Array(MAX_FRAME_BYTES - 100));
  await executor.hasReceived(2);
  const missing = MAX_FRAME_BYTES - frame.length;
  frame = harness.record('s', 0, new Uint8Array(MAX_FRAME_BYTES - 100 + missing));
  expect([frame.length, overhead > 0]).toEqual([MAX_FRAME_BYTES, true]);
  await executor.hasReceived(3);
  harness.record('s', 0, new Uint8Array(MAX_FRAME_BYTES - 99 + missing));
  expect((await harness.hasClosed()).code).toBe(1009);
});

test('notifies the executor of each stream whose harness disconnected', async () => {
  const environment = await environmentOf();
  const executor = await environment.executor();
  const harness = await environment.harness();
  for (const stream of ['a', 'b']) harness.resume(stream);
  await executor.hasReceived(2);
  harness.socket.drop();
  await executor.hasReceived(4);
  expect(executor.frames.slice(2).map(({ streamId, body }) => [streamId, body])).toEqual([
    ['a', { kind: 'reset', reason: PEER_LOST_REASON }],
    ['b', { kind: 'reset', reason: PEER_LOST_REASON }],
  ]);
  // Frames in flight to them are dropped, and the executor stays connected.
  executor.record('a', 0);
  const next = await environment.harness();
  next.resume('c');
  await executor.hasReceived(5);
  expect(executor.closed).toBeNull();
});

test('does not report a stream that either side has reset', async () => {
  const environment = await environmentOf();
  const executor = await environment.executor();
  const harness = await environment.harness();
  for (const stream of ['a', 'b', 'c']) harness.resume(stream);
  await executor.hasReceived(3);
  harness.reset('a');
  executor.reset('b');
  await harness.hasReceived(1);
  await executor.hasReceived(4);
  harness.socket.drop();
  await executor.hasReceived(5);
  expect(executor.frames[4]?.streamId).toBe('c');
});

test('closes the harnesses of a disconnected executor and reports it offline', async () => {
  const environment = await environmentOf();
  const executor = await environment.executor();
  const harnesses = [await environment.harness(), await environment.harness()];
  executor.socket.drop();
  for (const harness of harnesses)
    expect((await harness.hasClosed()).reason).toBe('the executor disconnected');
  await waitFor(
    'the lease to be given up',
    async () => (await environment.connect(someKey())).status === 409,
  );
});

test('the newest socket of an executor replaces the old one and gets all harnesses', async () => {
  const environment = await environmentOf();
  const { body } = await environment.register(someKey());
  const first = await TestPeer.connect(body.url);
  const harness = await environment.harness();
  const second = await TestPeer.connect(body.url);
  expect((await first.hasClosed()).reason).toMatch(/newer connection/);
  await harness.hasClosed();
  const next = await environment.harness();
  next.resume('s');
  await second.hasReceived(1);
  expect(second.closed).toBeNull();
});

test('closes a replaced executor and refuses its URL', async () => {
  const environment = await environmentOf();
  const key = someKey();
  const { body } = await environment.register(key);
  const first = await TestPeer.connect(body.url);
  const early = (await environment.connect(someKey())).body.url;
  const second = await environment.executor();
  expect((await first.hasClosed()).reason).toMatch(/another executor/);
  expect(await refusalOf(body.url)).toBe(401);
  expect(await refusalOf(early)).toBe(401);
  expect((await environment.register(key)).status).toBe(409);
  expect(second.closed).toBeNull();
});

test('a stream belongs to the harness that started it', async () => {
  const environment = await environmentOf();
  const executor = await environment.executor();
  const [owner, thief] = [await environment.harness(), await environment.harness()];
  owner.resume('s');
  await executor.hasReceived(1);
  thief.record('s', 0);
  thief.resume('s', resumeMarker('request'));
  await thief.hasReceived(2);
  expect(thief.frames.map(({ body }) => body.kind)).toEqual(['reset', 'reset']);
  executor.record('s', 0);
  await owner.hasReceived(1);
  expect(executor.received).toHaveLength(1);
});

test('a harness with the same key resumes its stream before its old socket is closed', async () => {
  const environment = await environmentOf();
  const executor = await environment.executor();
  const key = someKey();
  const before = await environment.harness(key);
  before.resume('s');
  await executor.hasReceived(1);
  const after = await environment.harness(key);
  after.resume('s', resumeMarker('request'));
  await executor.hasReceived(2);
  executor.record('s', 0);
  await after.hasReceived(1);
  expect(before.received).toHaveLength(0);
  before.socket.drop();
  after.record('s', 1);
  await executor.hasReceived(3);
  expect(executor.frames.map(({ body }) => body.kind)).toEqual(['resume', 'resume', 'data']);
});

test('closes a harness after an invalid frame, but not an executor', async () => {
  const environment = await environmentOf();
  const executor = await environment.executor();
  const harness = await environment.harness();
  executor.send(randomBytes(100));
  harness.send(randomBytes(100));
  expect((await harness.hasClosed()).code).toBe(1008);
  expect(executor.closed).toBeNull();
  expect(executor.received).toHaveLength(0);
});

test('limits the streams of a harness and the harnesses of an environment', async () => {
  const environment = await environmentOf();
  const executor = await environment.executor();
  const harness = await environment.harness();
  for (let index = 0; index <= MAX_STREAMS_PER_HARNESS; index++) harness.resume(`stream ${index}`);
  await executor.hasReceived(MAX_STREAMS_PER_HARNESS);
  await harness.hasReceived(1);
  expect(harness.frames[0]).toMatchObject({
    streamId: `stream ${MAX_STREAMS_PER_HARNESS}`,
    body: { kind: 'reset' },
  });
  const { url } = (await environment.connect(someKey())).body;
  for (let count = 1; count < MAX_HARNESSES_PER_ENVIRONMENT; count++) await TestPeer.connect(url);
  expect(await refusalOf(url)).toBe(503);
});

test('refuses a stream id that is too long', async () => {
  const environment = await environmentOf();
  const executor = await environment.executor();
  const harness = await environment.harness();
  harness.resume('x'.repeat(257));
  await harness.hasReceived(1);
  harness.resume('x'.repeat(256));
  await executor.hasReceived(1);
  expect(executor.frames[0]?.streamId).toHaveLength(256);
});

test('URLs expire and work only for their purpose', async () => {
  let nowMs = 1_000_000;
  const environment = await environmentOf({ now: () => nowMs });
  const { url } = (await environment.register(someKey())).body;
  await TestPeer.connect(url);
  const harnessUrl = (await environment.connect(someKey())).body.url;
  expect(await refusalOf(url.replace('env-1', 'env-2'))).toBe(401);
  expect(await refusalOf(`${url}x`)).toBe(401);
  expect(await refusalOf(url.replace(/ticket=.*/, ''))).toBe(401);
  expect(await refusalOf(url.replace('rendezvous', 'else'))).toBe(404);
  const forToken = url.replace(/ticket=.*/, `ticket=${token('executor')}`);
  expect(await refusalOf(forToken)).toBe(401);
  nowMs += HARNESS_TICKET_MS - 1;
  await TestPeer.connect(harnessUrl);
  nowMs += 1;
  expect(await refusalOf(harnessUrl)).toBe(401);
  nowMs += EXECUTOR_TICKET_MS;
  expect(await refusalOf(url)).toBe(401);
});

test('refuses a URL of another node with the same secret', async () => {
  const [here, there] = [await environmentOf(), await environmentOf()];
  await here.executor();
  await there.executor();
  const { url } = (await there.connect(someKey())).body;
  expect(await refusalOf(url.replace(new URL(url).host, new URL(here.url).host))).toBe(401);
});

test('rejects text messages', async () => {
  const environment = await environmentOf();
  const { url } = (await environment.register(someKey())).body;
  const socket = await connectWebSocket(url);
  const events = RecordedEvents.of(socket);
  socket.send('hello');
  await waitFor('the end of the socket', () => events.closeReason);
  expect(events.closeReason?.code).toBe(1008);
});

test('records connections but no relayed content', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'relay-audit-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const auditLog = join(folder, 'audit');
  const relay = await startTestRelay({ auditLog });
  const environment = new Environment(relay.url);
  const executor = await environment.executor();
  const harness = await environment.harness();
  harness.record('stream-name', 0, Buffer.from('secret payload'));
  await executor.hasReceived(1);
  executor.reset('stream-name');
  await harness.hasReceived(1);
  await relay.close();
  const written = readFileSync(auditLog, 'utf8');
  const events = written.trimEnd().split('\n');
  expect(events.map((line) => JSON.parse(line).event)).toEqual(
    expect.arrayContaining(['register', 'connect', 'socketOpened', 'socketClosed']),
  );
  for (const secret of [
    'stream-name',
    'secret',
    environment.harnessToken,
    environment.executorToken,
    SECRET,
  ]) {
    expect(written + relay.lines.join('')).not.toContain(secret);
  }
});

test('a closing relay closes all sockets with a reason and refuses new ones', async () => {
  const relay = await startTestRelay();
  const environment = new Environment(relay.url);
  const { url } = (await environment.register(someKey())).body;
  const executor = await TestPeer.connect(url);
  const harness = await environment.harness();
  harness.resume('s');
  await executor.hasReceived(1);
  for (let seq = 0; seq < 20; seq++) executor.record('s', seq, randomBytes(60_000));
  await harness.hasReceived(20);
  await relay.close('closing time');
  expect(await executor.hasClosed()).toEqual({ code: 1001, reason: 'closing time' });
  expect((await harness.hasClosed()).reason).toBe('the executor disconnected');
  await expect(fetch(relay.url)).rejects.toThrow();
});

test('limits the number of websockets', async () => {
  const environment = await environmentOf({ maxConnections: 2 });
  await environment.executor();
  const harness = await environment.harness();
  const { url } = (await environment.connect(someKey())).body;
  expect(await refusalOf(url)).toBe(503);
  harness.socket.drop();
  await untilAccepted(url);
});

test('an environment gets at most half of the connections', async () => {
  const environment = await environmentOf({ maxConnections: 6 });
  const other = new Environment(new URL(environment.url).origin, 'env-2');
  await environment.executor();
  await environment.harness();
  const harness = await environment.harness();
  const { url } = (await environment.connect(someKey())).body;
  expect(await refusalOf(url)).toBe(503);
  await other.executor();
  await other.harness();
  harness.socket.drop();
  await untilAccepted(url);
});

test('limits how often the harnesses and the executors of an environment connect', async () => {
  const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now());
  onTestFinished(() => clock.mockRestore());
  const environment = await environmentOf();
  const other = new Environment(new URL(environment.url).origin, 'env-2');
  await environment.executor();
  await other.executor();
  const { url } = (await environment.connect(someKey())).body;
  for (let index = 0; index < REQUESTS_PER_PERIOD; index++) (await connectFrameSocket(url)).drop();
  expect(await refusalOf(url)).toBe(503);
  await environment.executor();
  await other.harness();
});

test('idle connections do not block other clients', async () => {
  const { url } = await startTestRelay({ maxConnections: 1 });
  const { port } = new URL(url);
  const idle = Array.from({ length: 200 }, () => connectTcp(Number(port), '127.0.0.1').on('error', () => {}));
  onTestFinished(() => {
    for (const socket of idle) socket.destroy();
  });
  await waitFor('the oldest to go', () => idle[0]?.destroyed);
  await new Environment(url).executor();
});

test('answers 503 to an expired URL while the store is unreachable', async () => {
  const redis = await RedisServer.start();
  let nowMs = 1_000_000;
  const relay = await startTestRelay({ store: redis.url, now: () => nowMs });
  const { url } = (await new Environment(relay.url).register(someKey())).body;
  nowMs += EXECUTOR_TICKET_MS;
  expect(await refusalOf(url)).toBe(401);
  await redis.stop();
  await waitFor('the loss', async () => (await refusalOf(url)) === 503);
});

test('an older claim does not replace a newer one, in either order of arrival', async () => {
  const lines: string[] = [];
  const log = createLogger('debug', (line) => lines.push(line));
  const store = new MemoryStore();
  const metrics = new RelayMetrics(() => ({ ...rendezvous.counts, leases: 0, storeAvailable: true }));
  const records = new RelayRecords(metrics, log, null);
  const rendezvous = new Rendezvous({ store, node: () => ({ id: 'n', url: 'ws://n' }), records, log });
  onTestFinished(() => rendezvous.leases.close());
  const result = await store.register('e', someKey());
  if (result.outcome === 'superseded') throw new Error('superseded');
  const { registrationId } = result;
  const ticket = { role: 'executor', environmentId: 'e', registrationId, tokenId: 't' } as const;
  const [older, newer] = [
    await rendezvous.leases.claim('e', registrationId),
    await rendezvous.leases.claim('e', registrationId),
  ];
  const [first, second] = [new FakeSocket(), new FakeSocket()];
  rendezvous.addExecutor(first.asSocket, newer!, ticket, null);
  rendezvous.addExecutor(second.asSocket, older!, ticket, null);
  expect([first.closed, second.closed?.reason]).toEqual([null, expect.stringMatching(/newer connection/)]);
  await waitFor('the older one to leave', () => rendezvous.counts.executors === 1);
  expect((await store.find('e'))?.node).not.toBeNull();
});
