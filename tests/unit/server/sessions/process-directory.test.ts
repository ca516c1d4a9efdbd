import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ENDED_PROCESS_RECORDS } from '../../../../src/server/limits.ts';
import { settled } from './registry-fixture.ts';
import { createSharing, type SharingClient } from './sharing-fixture.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: Date.UTC(2026, 0, 1) });
});

afterEach(() => {
  vi.useRealTimers();
});

const HOUR_MS = 3_600_000;
const refs = (client: SharingClient, scope: 'session' | 'owner' | 'server') =>
  [...client.processes.list(scope)].map(({ ref }) => ref);

describe('names', () => {
  test('are unique among the running processes of an owner', async () => {
    const { connect, run } = createSharing();
    const [ana, bo] = [connect('ana', { owner: 'ana' }), connect('bo', { owner: 'bo' })];
    const first = await run(ana, 'p', { name: 'build' });
    await run(bo, 'p', { name: 'build' });
    await expect(run(ana, 'q', { name: 'build' })).rejects.toThrow(
      `the name build is in use by the running process ${first.process.ref}`,
    );
    first.child.exit(0);
    const second = await run(ana, 'q', { name: 'build' });
    expect((await ana.processes.wanted({ name: 'build' })).ref).toBe(second.process.ref);
  });

  test('are not references of other processes of the owner', async () => {
    const { connect, run } = createSharing({ closedProcessRetentionMs: 1_000 });
    const [ana, bo] = [connect('ana', { owner: 'ana' }), connect('bo', { owner: 'bo' })];
    const { process, child } = await run(ana, 'p');
    const { ref } = process;
    const refused = `the name ${ref} is the reference of another process`;
    await expect(run(ana, 'q', { name: ref })).rejects.toThrow(refused);
    child.finish(0);
    vi.advanceTimersByTime(1_000);
    await expect(run(ana, 'q', { name: ref })).rejects.toThrow(refused);
    // It has the form of a reference.
    await run(ana, 'q', { name: 'database' });
    // An owner does not learn the references of others.
    await run(bo, 'p', { name: ref });
  });

  test('find a process that has exited, and then say how it ended', async () => {
    const { connect, run } = createSharing({ closedProcessRetentionMs: 1_000 });
    const ana = connect('ana', { owner: 'ana' });
    const { process, child } = await run(ana, 'p', { name: 'build' });
    child.finish(7);
    expect(await ana.processes.wanted({ name: 'build' })).toBe(process);
    vi.advanceTimersByTime(1_000);
    const gone = 'exited with code 7 and closed at 2026-01-01T00:00:00.000Z';
    await expect(ana.processes.wanted({ name: 'build' })).rejects.toThrow(`process build ${gone}`);
    await expect(ana.processes.wanted({ ref: process.ref })).rejects.toThrow(
      `process ${process.ref} ${gone}`,
    );
    await expect(ana.processes.get(process.ref, 'read')).rejects.toThrow(gone);
  });
});

describe('access', () => {
  const bound = { exec: true, observe: false };

  test('of another owner needs the right to observe, and then only reads', async () => {
    const { connect, run } = createSharing({ closedProcessRetentionMs: 1_000 });
    const ana = connect('ana', { owner: 'ana', access: bound });
    const bo = connect('bo', { owner: 'bo', access: bound });
    const observer = connect('observer', { owner: 'cy', access: { exec: false, observe: true } });
    const { process, child } = await run(ana);
    const { ref } = process;

    const unknown = `unknown process id ${ref}`;
    await expect(bo.processes.get(ref, 'read')).rejects.toThrow(unknown);
    await expect(bo.processes.wanted({ ref })).rejects.toThrow(unknown);
    await expect(bo.processes.wanted({ processId: 'p', sessionId: ana.session.id })).rejects.toThrow(
      'unknown process id p',
    );
    expect(await bo.processes.find(ref, 'write')).toBeUndefined();
    expect(await bo.processes.terminate(ref, { type: 'force' })).toBe(false);
    expect([refs(bo, 'session'), refs(bo, 'owner')]).toEqual([[], []]);
    expect(() => bo.processes.list('server')).toThrow('needs the scope `observe`');

    expect(await observer.processes.wanted({ ref })).toBe(process);
    expect(refs(observer, 'server')).toEqual([ref]);
    expect(refs(observer, 'owner')).toEqual([]);
    observer.attach(process);
    expect(() => observer.processes.terminate(ref, { type: 'force' })).toThrow('belongs to another owner');
    expect(() => observer.attach(process, { role: 'driver', takeOver: true })).toThrow(
      'needs the scope `exec`',
    );

    child.finish(0);
    vi.advanceTimersByTime(1_000);
    await expect(bo.processes.get(ref, 'read')).rejects.toThrow(unknown);
    await expect(observer.processes.get(ref, 'read')).rejects.toThrow('exited with code 0');
  });

  test('of the owner by reference may read and signal, and write when no other client drives', async () => {
    const { connect, run } = createSharing();
    const [one, other] = [connect('one'), connect('other')];
    const { process } = await run(one);
    await other.processes.get(process.ref, 'read');
    await other.processes.find(process.ref, 'signal');
    expect(() => other.processes.find(process.ref, 'write')).toThrow('driven by the client `one`');
    one.disconnect();
    await expect(other.processes.find(process.ref, 'write')).resolves.toBeDefined();
  });

  test("finds the session's own process before a reference of the same text", async () => {
    const { connect, run } = createSharing();
    const [one, other] = [connect('one'), connect('other')];
    const { process } = await run(one);
    const own = await run(other, process.ref);
    expect(await other.processes.wanted({ ref: process.ref })).toBe(own.process);
    expect(await other.processes.wanted({ processId: 'p', sessionId: one.session.id })).toBe(process);
  });
});

describe('a detached process', () => {
  test('keeps the id of its session, also after a reconnect, and outlives it', async () => {
    const { registry, connect, run } = createSharing();
    const client = connect('client');
    const { process, child } = await run(client, 'p', { retainMs: HOUR_MS });
    await expect(run(client, 'p', { retainMs: HOUR_MS })).rejects.toThrow('process p already exists');
    expect(client.processes.idOf(process)).toBe('p');
    child.stdout.write('a');
    client.disconnect();
    child.stdout.write('b');
    registry.resume(client.session.id);
    const back = connect('client', { session: client.session });
    child.stdout.write('c');
    expect(back.peer.events('p')).toEqual(['c']);
    expect((await back.processes.get('p', 'read')).nextSeq).toBe(4);
    registry.end(client.session);
    await settled();
    expect(child.killed).toBe(0);
    const other = connect('other');
    other.attach(process, { role: 'driver', nextSeq: 1 });
    await settled();
    expect(other.peer.events(process.ref)).toEqual(['a', 'b', 'c']);
  });

  test('stays readable for its own time, and no longer', async () => {
    const { connect, run } = createSharing();
    const client = connect('client');
    const { process, child } = await run(client, 'p', { retainMs: HOUR_MS });
    child.finish(0);
    vi.advanceTimersByTime(HOUR_MS - 1);
    await client.processes.get('p', 'read');
    vi.advanceTimersByTime(1);
    await expect(client.processes.get(process.ref, 'read')).rejects.toThrow('its output was removed');
    await expect(client.processes.get('p', 'read')).rejects.toThrow('unknown process id p');
    expect(refs(client, 'session')).toEqual([]);
    await run(client, 'p', { retainMs: HOUR_MS });
  });

  test('is dropped at the limits of its owner, the oldest first', async () => {
    const { connect, run } = createSharing({ maxDetachedProcesses: 2 });
    const client = connect('client');
    const ended = [];
    for (const id of ['a', 'b', 'c']) {
      const { process, child } = await run(client, id, { retainMs: HOUR_MS });
      child.finish(0);
      ended.push(process.ref);
    }
    expect(refs(client, 'owner')).toEqual(ended.slice(1));
  });

  test('counts against the number of processes of its owner', async () => {
    const { connect, run } = createSharing({ maxProcessesPerConnection: 2 });
    const [one, other] = [connect('one'), connect('other')];
    const { child } = await run(one, 'a', { retainMs: HOUR_MS });
    await run(other, 'b', { retainMs: HOUR_MS });
    await expect(run(one, 'c', { retainMs: HOUR_MS })).rejects.toThrow('this owner has 2 running processes');
    await run(one, 'c');
    child.finish(0);
    await run(one, 'd', { retainMs: HOUR_MS });
  });

  test('may have been started by a session: it keeps its id and its output, and outlives the session', async () => {
    const { registry, connect, run, records } = createSharing();
    const client = connect('client');
    const { process, child } = await run(client, 'p');
    child.stdout.write('a');
    await client.processes.makeDetached('p', HOUR_MS);
    expect(records).toEqual([[process.ref, { lifetime: 'detached', retainMs: HOUR_MS }]]);
    expect(process.lifetime).toBe('detached');
    expect(client.processes.idOf(process)).toBe('p');
    await expect(run(client, 'p')).rejects.toThrow('process p already exists');
    registry.end(client.session);
    await settled();
    expect(child.killed).toBe(0);
    child.stdout.write('b');
    const other = connect('other');
    other.attach(process, { nextSeq: 1 });
    await settled();
    expect(other.peer.events(process.ref)).toEqual(['a', 'b']);
    child.finish(0);
    vi.advanceTimersByTime(HOUR_MS - 1);
    await other.processes.get(process.ref, 'read');
    vi.advanceTimersByTime(1);
    await expect(other.processes.get(process.ref, 'read')).rejects.toThrow('its output was removed');
  });

  test('may get another retention time', async () => {
    const { connect, run } = createSharing();
    const client = connect('client');
    const { process, child } = await run(client, 'p', { retainMs: HOUR_MS });
    await client.processes.makeDetached('p', 1_000);
    child.finish(0);
    vi.advanceTimersByTime(1_000);
    await expect(client.processes.get(process.ref, 'read')).rejects.toThrow('its output was removed');
  });

  test('stays with its session at a limit of the owner, at a quota, and after its end', async () => {
    const { registry, connect, run } = createSharing({ maxProcessesPerConnection: 1 });
    const client = connect('client');
    const detached = await run(client, 'a', { retainMs: HOUR_MS });
    const { process, child } = await run(client, 'p');
    const makeDetached = () => client.processes.makeDetached('p', HOUR_MS);
    await expect(makeDetached()).rejects.toThrow('this owner has 1 running processes');
    detached.child.finish(0);
    process.transferQuota = () => {
      throw new Error('no descriptors');
    };
    await expect(makeDetached()).rejects.toThrow('no descriptors');
    expect(process.lifetime).toBe('session');
    child.finish(0);
    await expect(makeDetached()).rejects.toThrow('process p has ended; its lifetime cannot change');
    await expect(client.processes.makeDetached('q', HOUR_MS)).rejects.toThrow('unknown process id q');
    registry.end(client.session);
    await settled();
    await expect(connect('other').processes.get(process.ref, 'read')).rejects.toThrow('exited with code 0');
  });

  test('cannot leave the resource limits of its session', async () => {
    const { connect, run } = createSharing({ maxSessionPids: 10 });
    const client = connect('client');
    const { process } = await run(client, 'p');
    await expect(client.processes.makeDetached('p', HOUR_MS)).rejects.toThrow(
      `process ${process.ref} cannot leave the limits of its session`,
    );
    await run(client, 'q', { retainMs: HOUR_MS });
    await client.processes.makeDetached('q', 1_000);
  });

  test('belongs to its owner: other clients cannot detach a process, nor can a viewer', async () => {
    const { connect, run } = createSharing();
    const [ana, viewer] = [connect('ana', { owner: 'ana' }), connect('viewer', { owner: 'ana' })];
    const bo = connect('bo', { owner: 'bo', access: { observe: true } });
    const { process } = await run(ana, 'p');
    viewer.attach(process);
    for (const [client, message] of [
      [bo, 'belongs to another owner'],
      [viewer, 'as a viewer'],
    ] as const) {
      await expect(client.processes.makeDetached(process.ref, HOUR_MS)).rejects.toThrow(message);
    }
    expect(process.lifetime).toBe('session');
  });

  test('ends with the server', async () => {
    const { registry, connect, run } = createSharing();
    const client = connect('client', { owner: 'ana' });
    const { child } = await run(client, 'p', { retainMs: HOUR_MS });
    const closed = registry.close(null, 0);
    await expect(run(client, 'q', { retainMs: HOUR_MS })).rejects.toThrow('the server is shutting down');
    await vi.advanceTimersByTimeAsync(0);
    await closed;
    expect(child.killed).toBe(1);
  });
});

test('lists processes in the order of their starts, and those of an owner alone', async () => {
  const { connect, run } = createSharing();
  const [ana, bo] = [connect('ana', { owner: 'ana' }), connect('bo', { owner: 'bo' })];
  const started = [];
  for (const [client, id] of [
    [ana, 'a'],
    [bo, 'b'],
    [ana, 'c'],
  ] as const) {
    started.push((await run(client, id, id === 'c' ? { retainMs: HOUR_MS } : {})).process);
  }
  const positions = started.map(({ position }) => position);
  expect(positions).toEqual([...new Set(positions)].sort((a, b) => a - b));
  expect(refs(ana, 'session')).toEqual([started[0]!.ref, started[2]!.ref]);
  expect(refs(ana, 'owner')).toEqual([started[0]!.ref, started[2]!.ref]);
  expect(refs(bo, 'server')).toEqual(started.map(({ ref }) => ref));
});

test('the position in a listing does not show an owner how many processes others start', async () => {
  const { connect, run } = createSharing();
  const [ana, bo] = [connect('ana', { owner: 'ana' }), connect('bo', { owner: 'bo' })];
  const before = Math.floor((performance.timeOrigin + performance.now()) * 1_000);
  const { process: first } = await run(ana, 'first');
  for (let index = 0; index < 10; index++) await run(bo, `p${index}`);
  const { process: second } = await run(ana, 'second');
  const after = Math.ceil((performance.timeOrigin + performance.now()) * 1_000);
  // It is the time of the start, which a listing shows anyway.
  expect(first.position).toBeGreaterThanOrEqual(before);
  expect(second.position).toBeGreaterThan(first.position);
  expect(second.position).toBeLessThanOrEqual(after);
});

test('a session can be resumed only for its owner; a new token without a subject may resume one whose id it knows', () => {
  const { registry, connect } = createSharing();
  const resumable = (owner: string, by: string) => {
    const client = connect('c', { owner });
    client.disconnect();
    try {
      return registry.resume(client.session.id, undefined, by) === client.session;
    } catch {
      return false;
    }
  };
  expect(resumable('ana', 'ana')).toBe(true);
  expect(resumable('ana', 'bo')).toBe(false);
  expect(resumable('ana', 'token:1')).toBe(false);
  expect(resumable('token:1', 'token:2')).toBe(true);
});

test('the number of remembered processes is limited; the oldest is forgotten first', async () => {
  const { connect, run } = createSharing({ closedProcessRetentionMs: 0 });
  const client = connect('client');
  const gone = [];
  for (let index = 0; index <= ENDED_PROCESS_RECORDS; index++) {
    const { process, child } = await run(client, 'p');
    child.finish(0);
    vi.advanceTimersByTime(1);
    gone.push(process.ref);
  }
  expect(new Set(gone).size).toBe(gone.length);
  await expect(client.processes.get(gone[0]!, 'read')).rejects.toThrow('unknown process id');
  await expect(client.processes.get(gone[1]!, 'read')).rejects.toThrow('exited with code 0');
});
