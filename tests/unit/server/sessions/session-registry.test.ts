import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { CLOSED_PROCESS_BYTES } from '../../../../src/process/limits.ts';
import { DEFAULT_CONFIG } from '../../../../src/server/config/config.ts';
import type { Session } from '../../../../src/server/sessions/session.ts';
import type { FakeChild } from '../../process/fake-child.ts';
import { createRegistry, isKnown, PEER, settled, TTL_MS, unknown } from './registry-fixture.ts';

const SIGTERM = 15;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});

afterEach(() => {
  vi.useRealTimers();
});

test('gives every session its own id', () => {
  const { registry } = createRegistry();
  const ids = Array.from({ length: 10 }, () => registry.create().id);
  expect(new Set(ids).size).toBe(10);
  for (const id of ids)
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test.each(['', 'nope', '__proto__', 'constructor'])('does not know the session %j', (id) => {
  const { registry } = createRegistry();
  registry.create();
  expect(() => registry.resume(id)).toThrow(unknown(id));
});

describe('resuming', () => {
  test('returns the same session, only while it is detached', () => {
    const { registry, attached } = createRegistry();
    const session = attached();
    expect(() => registry.resume(session.id)).toThrow(
      expect.objectContaining({
        code: -32010,
        message: `session ${session.id} is already attached to another connection`,
      }),
    );
    registry.detach(session);
    expect(registry.resume(session.id)).toBe(session);
  });

  test.each([
    ['after a lost connection', true, null, true],
    ['but not longer than its token', true, TTL_MS * 2, false],
    ['but not after a deliberate end', false, null, false],
  ])('a session with a longer TTL is kept %s', async (_name, isLost, tokenMs, isKept) => {
    const { registry, attached, run } = createRegistry();
    const session = attached();
    const child = await run(session);
    session.detachedTtlMs = TTL_MS * 10;
    registry.detach(session, { isLost, expiresAtMs: tokenMs === null ? null : Date.now() + tokenMs });
    vi.advanceTimersByTime(TTL_MS * 5);
    expect(child.killed).toBe(isKept ? 0 : 1);
  });

  test('stops the expiry; the next detach starts it again', async () => {
    const { registry, attached, run } = createRegistry();
    const session = attached();
    const child = await run(session);
    for (let round = 0; round < 3; round++) {
      registry.detach(session);
      vi.advanceTimersByTime(TTL_MS - 1);
      registry.resume(session.id).attach(PEER);
      vi.advanceTimersByTime(TTL_MS * 2);
    }
    expect(child.killed).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a detached session', () => {
  test('ends after its TTL, and its processes are killed', async () => {
    const { registry, attached, run } = createRegistry();
    const session = attached();
    const child = await run(session);
    registry.detach(session);
    vi.advanceTimersByTime(TTL_MS - 1);
    expect(child.killed).toBe(0);
    vi.advanceTimersByTime(1);
    expect(child.killed).toBe(1);
    expect(() => registry.resume(session.id)).toThrow(unknown(session.id));
  });

  test('ends immediately with a configured TTL of 0', async () => {
    const { registry, attached, run } = createRegistry({ detachedSessionTtlMs: 0 });
    const session = attached();
    const child = await run(session);
    registry.detach(session);
    expect(child.killed).toBe(1);
    expect(() => registry.resume(session.id)).toThrow(unknown(session.id));
    await settled();
    expect(vi.getTimerCount()).toBe(0);
  });

  test('ends immediately when its client asked for a TTL of 0', async () => {
    const { registry, attached, run } = createRegistry();
    const session = attached();
    session.detachedTtlMs = 0;
    const child = await run(session);
    registry.detach(session);
    expect(child.killed).toBe(1);
  });
});

describe('a detached session without a TTL', () => {
  test('is kept until the server ends', async () => {
    const { registry, attached, run } = createRegistry({ detachedSessionTtlMs: Number.POSITIVE_INFINITY });
    const session = attached();
    const child = await run(session);
    registry.detach(session);
    expect(registry.counts).toEqual({ attached: 0, detached: 1 });
    expect(vi.getTimerCount()).toBe(0);
    vi.advanceTimersByTime(2 ** 31);
    expect(registry.resume(session.id)).toBe(session);
    registry.detach(session);
    const closed = registry.close(null, 0);
    await vi.advanceTimersByTimeAsync(0);
    await closed;
    expect(child.killed).toBe(1);
  });

  test('is evicted like others when the server has the maximum number of sessions', () => {
    const { registry, attached } = createRegistry({
      maxSessions: 1,
      detachedSessionTtlMs: Number.POSITIVE_INFINITY,
    });
    const session = attached();
    registry.detach(session);
    expect(attached()).toBeDefined();
    expect(isKnown(registry, session.id)).toBe(false);
  });
});

/** Memory of a process of these tests that has written this in one chunk. */
function retainedBytes(output: string): number {
  const names = ['p', '/', 'p'];
  return (
    CLOSED_PROCESS_BYTES + 24 + output.length + names.reduce((bytes, name) => bytes + 32 + name.length, 0)
  );
}

describe('processes that end in a detached session', () => {
  const HOUR_MS = 3_600_000;
  const SESSIONS = { detachedSessionTtlMs: 2 * HOUR_MS };
  const end = async (child: FakeChild, output: string) => {
    child.stdout.write(output);
    child.finish(0);
    await settled();
  };
  const listed = (session: Session) => [...session.shared.keys()];

  test('are readable after any time, and for the whole retention time after a client came back', async () => {
    const { registry, attached, run } = createRegistry(SESSIONS);
    const session = attached();
    const child = await run(session);
    registry.detach(session);
    await end(child, 'result');
    vi.advanceTimersByTime(HOUR_MS);
    expect(registry.detachedProcesses).toEqual({ processes: 1, bytes: retainedBytes('result') });
    registry.resume(session.id).attach(PEER);
    vi.advanceTimersByTime(DEFAULT_CONFIG.closedProcessRetentionMs - 1);
    expect(listed(session)).toEqual(['p']);
    vi.advanceTimersByTime(1);
    expect(listed(session)).toEqual([]);
    expect(registry.detachedProcesses).toEqual({ processes: 0, bytes: 0 });
  });

  test('are dropped at the limits although their client reconnects before any retention time ends', async () => {
    const limit = { maxDetachedOutputBytesPerSession: 2 * retainedBytes('result') };
    const { registry, attached, run } = createRegistry({ ...SESSIONS, ...limit });
    const session = attached();
    for (const id of ['a', 'b', 'c']) await end(await run(session, id), 'result');
    for (let round = 0; round < 4; round++) {
      registry.detach(session);
      vi.advanceTimersByTime(DEFAULT_CONFIG.closedProcessRetentionMs / 2);
      registry.resume(session.id).attach(PEER);
    }
    expect(listed(session)).toEqual(['b', 'c']);
    expect(registry.detachedProcesses).toEqual({ processes: 2, bytes: 2 * retainedBytes('result') });
  });

  test('are no longer counted when the session ends', async () => {
    const { registry, attached, run } = createRegistry(SESSIONS);
    const session = attached();
    const child = await run(session);
    registry.detach(session);
    await end(child, 'result');
    vi.advanceTimersByTime(2 * HOUR_MS);
    await settled();
    expect(isKnown(registry, session.id)).toBe(false);
    expect(registry.detachedProcesses).toEqual({ processes: 0, bytes: 0 });
  });

  test.each([
    ['maxDetachedOutputBytesPerSession', 2 * retainedBytes('result')],
    ['maxDetachedOutputBytes', 2 * retainedBytes('result')],
    ['maxDetachedProcesses', 2],
  ] as const)('are dropped at %s, the oldest first', async (limit, value) => {
    const { registry, attached, run } = createRegistry({ ...SESSIONS, [limit]: value });
    const session = attached();
    const children = [await run(session, 'a'), await run(session, 'b'), await run(session, 'c')];
    registry.detach(session);
    for (const child of children) await end(child, 'result');
    vi.advanceTimersByTime(DEFAULT_CONFIG.closedProcessRetentionMs - 1);
    expect(listed(session)).toEqual(['a', 'b', 'c']);
    vi.advanceTimersByTime(1);
    expect(listed(session)).toEqual(['b', 'c']);
    expect(session.processes.closed.dropped).toMatchObject([{ processId: 'a', exitCode: 0, limit }]);
  });
});

test('resumes the processes of a detached session and sends nothing', async () => {
  const { registry, run } = createRegistry();
  const session = registry.create();
  session.attach({ ...PEER, saturated: true });
  const child = await run(session);
  child.stdout.write('kept');
  expect((await session.processes.get('p')).nextSeq).toBe(1);
  registry.detach(session);
  expect(session.attached).toBe(false);
  expect((await session.processes.get('p')).nextSeq).toBe(2);
  session.sendBulk(Buffer.from('detached'));
  registry.resume(session.id).attach({ ...PEER, saturated: true });
  child.stdout.write('held');
  expect((await session.processes.get('p')).nextSeq).toBe(2);
});

describe('closing', () => {
  test('signals every process, waits for the grace period and kills the rest', async () => {
    const { registry, attached, run } = createRegistry();
    const [polite, stubborn] = [await run(attached()), await run(attached())];
    const detached = attached();
    const forgotten = await run(detached);
    registry.detach(detached);
    const closed = registry.close(SIGTERM, 2_000);
    expect([polite.signals, stubborn.signals, forgotten.signals]).toEqual([[SIGTERM], [SIGTERM], [SIGTERM]]);
    polite.finish(0);
    await vi.advanceTimersByTimeAsync(1_999);
    expect(stubborn.killed).toBe(0);
    await vi.advanceTimersByTimeAsync(1);
    await closed;
    expect([polite.killed, stubborn.killed, forgotten.killed]).toEqual([0, 1, 1]);
  });

  test('signals every process also without a grace period', async () => {
    const { registry, attached, run } = createRegistry();
    const child = await run(attached());
    const closed = registry.close(SIGTERM, 0);
    expect(child.signals).toEqual([SIGTERM]);
    await vi.advanceTimersByTimeAsync(0);
    await closed;
    expect(child.killed).toBe(1);
  });

  test('sends no signal when none is given', async () => {
    const { registry, attached, run } = createRegistry();
    const child = await run(attached());
    const closed = registry.close(null, 0);
    await vi.advanceTimersByTimeAsync(0);
    await closed;
    expect([child.signals, child.killed]).toEqual([[], 1]);
  });

  test('does not wait for the grace period when every process has ended', async () => {
    const { registry, attached, run } = createRegistry();
    const child = await run(attached());
    const closed = registry.close(SIGTERM, 60_000);
    child.finish(0);
    await closed;
    expect(vi.getTimerCount()).toBe(0);
  });

  test('starts no timer for connections that end afterwards', async () => {
    const { registry, attached } = createRegistry();
    const session = attached();
    await registry.close(SIGTERM, 0);
    registry.detach(session);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('opens no new sessions and ends sessions that are detached meanwhile immediately', async () => {
    const { registry, attached, run } = createRegistry();
    const [session, other] = [attached(), attached()];
    const child = await run(session);
    registry.detach(other);
    const closed = registry.close(SIGTERM, 60_000);
    const refused = expect.objectContaining({ code: -32600, message: 'the server is shutting down' });
    expect(() => registry.create()).toThrow(refused);
    expect(() => registry.resume(other.id)).toThrow(refused);
    registry.detach(session);
    expect(child.killed).toBe(1);
    await closed;
    expect(vi.getTimerCount()).toBe(0);
  });

  test('causes no listener warning with many processes', async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => warnings.push(warning);
    process.on('warning', onWarning);
    const { registry, attached, run } = createRegistry();
    const session = attached();
    const children: FakeChild[] = [];
    for (let index = 0; index < 20; index++) children.push(await run(session, `p${index}`));
    const closed = registry.close(SIGTERM, 1_000);
    for (const child of children) child.finish();
    await closed;
    await settled();
    process.off('warning', onWarning);
    expect(warnings).toEqual([]);
  });
});

describe('limits of a session', () => {
  test('are null when none are configured', () => {
    expect(createRegistry().attached().limits).toBeNull();
  });

  test('belong to one session and are released when its processes have ended', async () => {
    const { attached, registry, run } = createRegistry({ maxSessionPids: 7, maxSessionMemoryBytes: 4096 });
    const [first, second] = [attached(), attached()];
    expect(first.limits?.limits).toEqual({ memoryBytes: 4096, pids: 7, cpuPercent: null });
    expect(second.limits).not.toBe(first.limits);
    const close = vi.spyOn(first.limits!, 'close');
    const child = await run(first);
    registry.end(first);
    expect(close).not.toHaveBeenCalled();
    child.exit({ code: null, signal: 9 });
    await vi.waitFor(() => expect(close).toHaveBeenCalledOnce());
  });
});
