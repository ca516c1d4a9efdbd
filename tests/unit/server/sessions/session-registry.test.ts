import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { CLOSED_PROCESS_BYTES } from '../../../../src/process/limits.ts';
import { DEFAULT_CONFIG, type ExecServerConfig } from '../../../../src/server/config/config.ts';
import type { Session } from '../../../../src/server/sessions/session.ts';
import { SessionRegistry } from '../../../../src/server/sessions/session-registry.ts';
import { type FakeChild, FakeSpawner } from '../../process/fake-child.ts';

const TTL_MS = 30_000;
const SIGTERM = 15;
const PEER = {
  saturated: false,
  sendBulk: () => undefined,
  call: async () => undefined,
  probe: () => undefined,
  confirmReceived: (_sentBeforeMs: number, confirmed: () => void) => confirmed(),
};

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});

afterEach(() => {
  vi.useRealTimers();
});

function createRegistry(config: Partial<ExecServerConfig> = {}) {
  const spawner = new FakeSpawner();
  const registry = new SessionRegistry(
    { ...DEFAULT_CONFIG, detachedSessionTtlMs: TTL_MS, ...config },
    spawner,
  );
  const attached = (client?: string) => {
    const session = registry.create(undefined, client);
    session.attach(PEER);
    return session;
  };
  const run = async (session: Session, processId = 'p') => {
    const options = { processId, name: null, lifetime: 'session', dialect: 'process' } as const;
    const shared = registry.directory.enter(session, options);
    const started = session.processes.start({
      processId,
      observer: shared,
      spec: { program: 'p', argv: ['p'], cwd: '/', env: {}, io: { kind: 'pipe', stdin: 'closed' } },
      retention: { headBytes: 0, tailBytes: 1_000, maxChunks: 10 },
      listener: shared,
    });
    const child = spawner.succeed();
    await started;
    return child;
  };
  return { registry, spawner, attached, run };
}

const unknown = (id: string) =>
  expect.objectContaining({ code: -32600, message: `unknown session id ${id}` });
const settled = () => new Promise(setImmediate);

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
    CLOSED_PROCESS_BYTES + 16 + output.length + names.reduce((bytes, name) => bytes + 32 + name.length, 0)
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

describe('with the maximum number of sessions', () => {
  const full = expect.objectContaining({
    code: -32001,
    message: 'the server keeps 2 sessions, the configured maximum (maxSessions)',
  });

  test('opens no further session until one ends', () => {
    const { registry, attached } = createRegistry({ maxSessions: 2 });
    const [first] = [attached(), attached()];
    expect(attached).toThrow(full);
    registry.end(first!);
    expect(attached()).toBeDefined();
    expect(attached).toThrow(full);
  });

  test('evicts the session that was detached first and has no running process', async () => {
    const { registry, attached, run } = createRegistry({ maxSessions: 2 });
    const [busy, quiet] = [attached(), attached()];
    const child = await run(busy);
    registry.detach(busy);
    registry.detach(quiet);
    const next = attached();
    expect(() => registry.resume(quiet.id)).toThrow(unknown(quiet.id));
    expect(() => attached()).toThrow(full);
    expect(child.killed).toBe(0);
    child.finish(0);
    await settled();
    expect(attached()).toBeDefined();
    expect(() => registry.resume(busy.id)).toThrow(unknown(busy.id));
    expect(next.attached).toBe(true);
  });

  test('evicts a session of the client with the most', () => {
    const { registry, attached } = createRegistry({ maxSessions: 4 });
    const own = attached('a');
    registry.detach(own);
    const others = Array.from({ length: 6 }, () => {
      const session = attached('b');
      registry.detach(session);
      return session;
    });
    expect(others.map(({ id }) => id).filter((id) => isKnown(registry, id))).toHaveLength(3);
    expect(isKnown(registry, own.id)).toBe(true);
  });

  test('a client without a session gets one, also with more clients than sessions', () => {
    const { registry, attached } = createRegistry({ maxSessions: 2 });
    const sessions = ['a', 'b', 'c'].map((client) => {
      const session = attached(client);
      registry.detach(session);
      return session;
    });
    expect(sessions.map(({ id }) => isKnown(registry, id))).toEqual([false, true, true]);
  });

  describe.each(['none', 'signed-bearer-token'] as const)('and clients that are not equal (%s)', (wsAuth) => {
    const many = (create: () => Session) => {
      const created: Session[] = [];
      try {
        for (let index = 0; index < 10; index++) created.push(create());
      } catch (error) {
        return { created, error };
      }
      return { created, error: null };
    };

    test.each([
      ['attached', async () => {}],
      [
        'detached, with running processes',
        async ({ registry, run }: ReturnType<typeof createRegistry>, sessions: readonly Session[]) => {
          for (const session of sessions) {
            await run(session);
            registry.detach(session);
          }
        },
      ],
    ])('no client displaces the results of others with sessions that are %s', async (_state, leave) => {
      const fixture = createRegistry({ maxSessions: 6, wsAuth });
      const { registry, attached } = fixture;
      const victim = attached('victim');
      registry.detach(victim);
      const { created } = many(() => attached('greedy'));
      await leave(fixture, created);
      expect(() => attached('greedy')).toThrow(expect.objectContaining({ code: -32001 }));
      expect(isKnown(registry, victim.id)).toBe(true);
    });

    test('a client below its share gets the idle session of one above it, and no more than its share', () => {
      const { registry, attached } = createRegistry({ maxSessions: 6, wsAuth });
      const greedy = many(() => attached('greedy')).created;
      for (const session of greedy) registry.detach(session);
      const { created, error } = many(() => attached('late'));
      expect(created).toHaveLength(3);
      expect(error).toMatchObject({ code: -32001 });
      expect(greedy.filter(({ id }) => isKnown(registry, id))).toEqual(greedy.slice(-3));
    });
  });

  test('a client with a signed token leaves sessions to others', () => {
    const { registry, attached } = createRegistry({ maxSessions: 6, wsAuth: 'signed-bearer-token' });
    const greedy = Array.from({ length: 5 }, () => attached('greedy'));
    expect(() => attached('greedy')).toThrow(
      expect.objectContaining({
        code: -32001,
        message:
          'this client has 5 of the 6 sessions that the server keeps (maxSessions), and the rest is for other clients; resume one of its sessions, or end the programs of a detached one',
      }),
    );
    expect(attached('late')).toBeDefined();
    registry.detach(greedy[0]!);
    expect(attached('late')).toBeDefined();
    expect(isKnown(registry, greedy[0]!.id)).toBe(false);
  });

  test.each(['none', 'capability-token'] as const)('a single client may have all of them (%s)', (wsAuth) => {
    const { registry, attached } = createRegistry({ maxSessions: 6, wsAuth });
    for (let index = 0; index < 6; index++) attached('only');
    expect(registry.counts).toEqual({ attached: 6, detached: 0 });
  });
});

function isKnown(registry: SessionRegistry, id: string): boolean {
  try {
    return registry.resume(id) !== null;
  } catch {
    return false;
  }
}

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
