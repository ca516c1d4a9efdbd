import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Session } from '../../../../src/server/sessions/session.ts';
import { createRegistry, isKnown, settled, unknown } from './registry-fixture.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});

afterEach(() => {
  vi.useRealTimers();
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
