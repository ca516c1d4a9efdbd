import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ByteBudget } from '../../../../src/base/byte-budget.ts';
import { encodeFrame } from '../../../../src/relay/frames/frame.ts';
import {
  ENVIRONMENT_WINDOW_BYTES,
  MAX_STREAMS_PER_ENVIRONMENT,
  MAX_STREAMS_PER_HARNESS,
  RELAY_WINDOW_BYTES,
  SOCKET_WINDOW_BYTES,
  STALL_TIMEOUT_MS,
} from '../../../../src/relay/service/limits.ts';
import { ExecutorSession } from '../../../../src/relay/service/rendezvous/executor-session.ts';
import { FakeSocket } from './fake-socket.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Whether a harness's frame for a stream reaches the executor. */
function passes(executor: FakeSocket, harness: FakeSocket, streamId: string): boolean {
  const before = executor.sent.length;
  harness.arrive(streamId, 1);
  return executor.sent.length > before;
}

function createSession(
  window = new ByteBudget(RELAY_WINDOW_BYTES, () => {}),
  shareBytes = RELAY_WINDOW_BYTES / 2,
) {
  const slowDisconnected = vi.fn();
  const ended = vi.fn();
  const executor = new FakeSocket();
  const session = new ExecutorSession(executor.asSocket, {
    window,
    shareBytes: () => shareBytes,
    forwarded: () => {},
    dropped: () => {},
    slowDisconnected,
    harnessGone: () => {},
    ended,
  });
  session.open();
  /** Adds a harness with a stream of the same name. */
  const join = (name: string, keyHash = name) => {
    const socket = new FakeSocket();
    session.join(socket.asSocket, keyHash, () => {});
    socket.arrive(name);
    executor.drain();
    return socket;
  };
  return { session, executor, join, slowDisconnected, ended };
}

test.each([
  [0, 3],
  [2, 3],
  [5, 3],
  [0, 0],
])('passes segment %i of %i on unchanged in both directions', (index, count) => {
  const { executor, join } = createSession();
  const harness = join('s');
  const frame = encodeFrame({
    streamId: 's',
    ack: 7,
    body: { kind: 'data', seq: 9, payload: Buffer.from('record'), segment: { index, count } },
  });
  harness.arriveFrame(frame);
  expect(executor.sent.at(-1)).toBe(frame);
  executor.arriveFrame(frame);
  expect(harness.sent.at(-1)).toBe(frame);
});

const CHUNK = 100_000;

/** Sends from the executor to a stream until reading from the executor pauses. */
function flood(executor: FakeSocket, streamId: string): number {
  let frames = 0;
  for (; executor.receiving && frames < 10_000; frames++) executor.arrive(streamId, CHUNK);
  return frames;
}

test('pauses the executor while a harness does not read, until half of its queue is sent', () => {
  const { executor, join } = createSession();
  const harness = join('a');
  flood(executor, 'a');
  expect(harness.pendingBytes).toBeGreaterThanOrEqual(SOCKET_WINDOW_BYTES);
  expect(harness.pendingBytes).toBeLessThan(SOCKET_WINDOW_BYTES + 2 * CHUNK);
  harness.drain(harness.pendingBytes - SOCKET_WINDOW_BYTES / 2 - 1);
  expect(executor.receiving).toBe(false);
  harness.drain(1);
  expect(executor.receiving).toBe(true);
});

test('pauses harnesses while the executor does not read', () => {
  const { executor, join } = createSession();
  const [one, other] = [join('a'), join('b')];
  for (let count = 0; one.receiving && count < 100; count++) one.arrive('a', CHUNK);
  expect([one.receiving, other.receiving]).toEqual([false, false]);
  expect(executor.pendingBytes).toBeLessThan(SOCKET_WINDOW_BYTES + 2 * CHUNK);
  executor.drain();
  expect([one.receiving, other.receiving]).toEqual([true, true]);
});

test('pauses a harness that joins while the executor does not read', () => {
  const { session, executor, join } = createSession();
  const one = join('a');
  for (let count = 0; one.receiving && count < 100; count++) one.arrive('a', CHUNK);
  const late = new FakeSocket();
  session.join(late.asSocket, 'late', () => {});
  expect(late.receiving).toBe(false);
  executor.drain();
  expect(late.receiving).toBe(true);
});

test('limits the queued bytes of all harnesses together', () => {
  const { executor, join } = createSession();
  const harnesses = Array.from({ length: 20 }, (_, index) => [`h${index}`, join(`h${index}`)] as const);
  for (let round = 0; executor.receiving && round < 100; round++) {
    for (const [name] of harnesses) if (executor.receiving) executor.arrive(name, CHUNK);
  }
  const waiting = harnesses.reduce((sum, [, socket]) => sum + socket.pendingBytes, 0);
  expect(waiting).toBeGreaterThanOrEqual(ENVIRONMENT_WINDOW_BYTES);
  expect(waiting).toBeLessThan(ENVIRONMENT_WINDOW_BYTES + 2 * CHUNK);
  expect(Math.max(...harnesses.map(([, socket]) => socket.pendingBytes))).toBeLessThan(SOCKET_WINDOW_BYTES);
});

test('pauses environments with more than their share when all together reach the limit, and no others', () => {
  const sessions: ReturnType<typeof createSession>[] = [];
  const window = new ByteBudget(4 * CHUNK, () => {
    for (const { session } of sessions) session.updateReading();
  });
  sessions.push(createSession(window, CHUNK + 1_000), createSession(window, CHUNK + 1_000));
  const [one, other] = sessions as [(typeof sessions)[0], (typeof sessions)[0]];
  const [harness, another] = [one.join('a'), other.join('b')];
  flood(one.executor, 'a');
  expect([one.executor.receiving, other.executor.receiving]).toEqual([false, true]);
  // The other environment may use its share for as long as its harness reads.
  for (let count = 0; count < 10; count++) {
    other.executor.arrive('b', CHUNK);
    expect(other.executor.receiving).toBe(true);
    another.drain();
  }
  for (let count = 0; count < 2; count++) other.executor.arrive('b', CHUNK);
  expect(other.executor.receiving).toBe(false);
  vi.advanceTimersByTime(STALL_TIMEOUT_MS - 1);
  another.drain();
  expect(other.executor.receiving).toBe(true);
  vi.advanceTimersByTime(1);
  expect([harness.closed, another.closed]).toEqual([{ code: 1006, reason: '' }, null]);
  expect([one.executor.receiving, other.executor.receiving]).toEqual([true, true]);
});

test('disconnects only the harness that blocks the others', () => {
  const { executor, join, slowDisconnected } = createSession();
  const [slow, other] = [join('slow'), join('other')];
  flood(executor, 'slow');
  vi.advanceTimersByTime(STALL_TIMEOUT_MS - 1);
  expect(slow.closed).toBeNull();
  vi.advanceTimersByTime(1);
  expect(slow.closed).not.toBeNull();
  expect(other.closed).toBeNull();
  expect(executor.receiving).toBe(true);
  expect(slowDisconnected).toHaveBeenCalledOnce();
  vi.advanceTimersByTime(10 * STALL_TIMEOUT_MS);
  expect(slowDisconnected).toHaveBeenCalledOnce();
});

test('restarts the stall timeout when a harness reads in time', () => {
  const { executor, join, slowDisconnected } = createSession();
  const harness = join('a');
  for (let round = 0; round < 5; round++) {
    flood(executor, 'a');
    vi.advanceTimersByTime(STALL_TIMEOUT_MS - 1);
    harness.drain();
  }
  expect(slowDisconnected).not.toHaveBeenCalled();
});

test('allows both directions to be busy without a limit', () => {
  const { executor, join, slowDisconnected } = createSession();
  const harness = join('a');
  const fillExecutor = () => {
    for (let count = 0; harness.receiving && count < 100; count++) harness.arrive('a', CHUNK);
  };
  flood(executor, 'a');
  for (let elapsedMs = 0; elapsedMs < 3 * STALL_TIMEOUT_MS; elapsedMs += STALL_TIMEOUT_MS / 2) {
    // One of the queues is always full, but neither for long.
    fillExecutor();
    vi.advanceTimersByTime(STALL_TIMEOUT_MS / 4);
    harness.drain();
    flood(executor, 'a');
    vi.advanceTimersByTime(STALL_TIMEOUT_MS / 4);
    executor.drain();
  }
  expect(slowDisconnected).not.toHaveBeenCalled();
  expect([executor.closed, harness.closed]).toEqual([null, null]);
});

test('disconnects the socket with the most queued bytes when many block together', () => {
  const { executor, join, slowDisconnected } = createSession();
  const harnesses = Array.from({ length: 20 }, (_, index) => [`h${index}`, join(`h${index}`)] as const);
  for (let count = 0; count < 3; count++) executor.arrive('h3', CHUNK);
  for (let round = 0; executor.receiving && round < 100; round++) {
    for (const [name] of harnesses) if (executor.receiving) executor.arrive(name, CHUNK);
  }
  vi.advanceTimersByTime(STALL_TIMEOUT_MS);
  expect(harnesses.filter(([, { closed }]) => closed !== null).map(([name]) => name)).toEqual(['h3']);
  expect(slowDisconnected).toHaveBeenCalledOnce();
  executor.drop();
  expect(vi.getTimerCount()).toBe(0);
});

test('disconnects an executor that does not read, and closes its harnesses', () => {
  const { executor, join, ended } = createSession();
  const harness = join('a');
  for (let count = 0; harness.receiving && count < 100; count++) harness.arrive('a', CHUNK);
  vi.advanceTimersByTime(STALL_TIMEOUT_MS);
  expect(executor.closed).not.toBeNull();
  expect(harness.closed?.reason).toBe('the executor disconnected');
  expect(ended).toHaveBeenCalledOnce();
  expect(vi.getTimerCount()).toBe(0);
});

test('disconnects a harness that does not read its resets', () => {
  const { executor, join } = createSession();
  join('owner');
  const rude = join('rude');
  let most = 0;
  for (let count = 0; rude.closed === null && count < 100_000; count++) {
    rude.arrive('owner', 1);
    most = Math.max(most, rude.pendingBytes);
  }
  expect(rude.closed).not.toBeNull();
  expect(most).toBeLessThan(SOCKET_WINDOW_BYTES + CHUNK);
  expect(executor.receiving).toBe(true);
});

test('releases the queued bytes of a closed socket', () => {
  const window = new ByteBudget(RELAY_WINDOW_BYTES, () => {});
  const { executor, join } = createSession(window);
  const harness = join('a');
  flood(executor, 'a');
  harness.drop();
  // Only the reset for the executor remains.
  expect(window.bytes).toBe(executor.pendingBytes);
  executor.drop();
  expect(window.bytes).toBe(0);
});

test('limits the streams of an environment', () => {
  const { session, executor, join } = createSession();
  const harnesses = ['a', 'b', 'c'].map((name) => join(name));
  const [first, , last] = harnesses as [FakeSocket, FakeSocket, FakeSocket];
  for (const [index, harness] of harnesses.entries()) {
    for (let count = 1; count < MAX_STREAMS_PER_HARNESS; count++) harness.arrive(`${index} ${count}`, 1);
  }
  expect(session.streamCount).toBe(MAX_STREAMS_PER_ENVIRONMENT);
  const refused = last.sent.length;
  expect(refused).toBeGreaterThan(0);
  first.drop();
  executor.drain();
  last.arrive('another', 1);
  expect([last.sent.length, session.streamCount]).toEqual([
    refused,
    MAX_STREAMS_PER_ENVIRONMENT - MAX_STREAMS_PER_HARNESS + 1,
  ]);
});

test('reserves the stream of a disconnected harness for its key', () => {
  const { executor, join } = createSession();
  join('mine', 'my key').drop();
  const other = join('other');
  expect(passes(executor, other, 'mine')).toBe(false);
  expect(passes(executor, other, 'new')).toBe(true);
  expect(passes(executor, join('second', 'my key'), 'mine')).toBe(true);
});

test('limits the reserved streams of disconnected harnesses', () => {
  const { executor, join } = createSession();
  for (let count = 0; count <= MAX_STREAMS_PER_ENVIRONMENT; count++) join(`${count}`).drop();
  const other = join('other');
  expect([passes(executor, other, '0'), passes(executor, other, '1')]).toEqual([true, false]);
});
