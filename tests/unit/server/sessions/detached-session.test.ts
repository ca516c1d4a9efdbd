import { describe, expect, test } from 'vitest';
import { settled } from './registry-fixture.ts';
import { createSharing, type SharingClient } from './sharing-fixture.ts';

/** A session that has started a process of the lifetime `detached`, has got the output `a`, and has detached. */
async function left(options: { windowBytes?: number } = {}) {
  const sharing = createSharing();
  const owner = sharing.connect('owner');
  const { process, child } = await sharing.run(owner, 'p', { ...options, retainMs: 60_000 });
  child.stdout.write('a');
  owner.processes.detach('p');
  await settled();
  const write = (...texts: string[]) => {
    for (const text of texts) child.stdout.write(text);
  };
  const resume = (): SharingClient => {
    sharing.registry.resume(owner.session.id);
    return sharing.connect('owner', { session: owner.session });
  };
  return { ...sharing, owner, process, child, write, resume };
}

describe('a session that has detached from its detached process', () => {
  test('gets no more events, does not drive, and never slows the program', async () => {
    const { owner, process, child, write, records } = await left({ windowBytes: 1 });
    expect([process.driver, process.attachedCount, process.attachedClients]).toEqual([null, 0, []]);
    owner.setSaturated(true);
    write('b', 'c');
    expect(child.stdout.paused).toBe(false);
    owner.setSaturated(false);
    child.finish(0);
    await settled();
    expect(owner.peer.events('p')).toEqual(['a']);
    expect(owner.peer.roles('p')).toEqual([]);
    expect(records).toEqual([['detach', process.ref, {}]]);
  });

  test('can use the process by its id as before', async () => {
    const { owner, process } = await left();
    expect([...owner.processes.list('session')]).toEqual([process]);
    expect(owner.processes.idOf(process)).toBe('p');
    await owner.processes.get('p', 'write');
    await owner.processes.terminate('p', { type: 'force' });
    await settled();
    expect(process.running).toBe(false);
  });

  test.each(['ref', 'name', 'processId'] as const)(
    'attaches again by its %s as any client, from any event on and without a repeat',
    async (way) => {
      const { connect, run } = createSharing();
      const owner = connect('owner');
      const { process, child } = await run(owner, 'p', { retainMs: 60_000, name: 'job' });
      child.stdout.write('a');
      owner.processes.detach('p');
      child.stdout.write('b');
      const wanted = { ref: process.ref, name: 'job', processId: 'p' };
      const found = await owner.processes.wanted({ [way]: wanted[way] });
      const follower = owner.attach(found, { nextSeq: 2 });
      expect([follower.processId, process.roleOf(follower)]).toEqual(['p', 'viewer']);
      child.stdout.write('c');
      await settled();
      child.stdout.write('d');
      expect(owner.peer.events('p')).toEqual(['a', 'b', 'c', 'd']);
      expect(owner.peer.roles('p')).toEqual(['viewer']);
      expect(process.attachedClients).toEqual([{ client: 'owner', role: 'viewer' }]);
    },
  );

  test('attaches from now on without `afterSeq`, and detaches again by its id or the reference', async () => {
    const { owner, process, write } = await left();
    for (const id of ['p', process.ref]) {
      write('unseen');
      owner.attach(process);
      await settled();
      write(id);
      owner.processes.detach(id);
    }
    write('unseen');
    expect(owner.peer.events('p')).toEqual(['a', 'p', process.ref]);
    expect(process.attachedCount).toBe(0);
  });

  test('slows the program only while it drives again', async () => {
    const { owner, process, child, write } = await left();
    owner.setSaturated(true);
    owner.attach(process);
    expect(child.stdout.paused).toBe(false);
    owner.attach(process, { role: 'driver', windowBytes: 1 });
    expect(child.stdout.paused).toBe(true);
    owner.setSaturated(false);
    await settled();
    expect(child.stdout.paused).toBe(false);
    write('b');
    expect(child.stdout.paused).toBe(true);
    owner.processes.consumed('p', 2);
    expect(child.stdout.paused).toBe(false);
    write('c');
    owner.processes.detach('p');
    expect(child.stdout.paused).toBe(false);
  });

  test('stays detached when it resumes, until it attaches again', async () => {
    const { owner, process, child, write, resume } = await left({ windowBytes: 1 });
    owner.attach(process, { role: 'driver', nextSeq: 2 });
    await settled();
    write('b');
    owner.disconnect();
    write('c');
    const again = resume();
    write('d');
    expect([process.driver, child.stdout.paused]).toEqual([null, false]);
    again.attach(process, { nextSeq: 3 });
    await settled();
    write('e');
    child.finish(0);
    await settled();
    expect(owner.peer.events('p')).toEqual(['a', 'b']);
    expect(again.peer.events('p')).toEqual(['c', 'd', 'e', 'exit', 'closed']);
  });

  test('gets output together with clients that know the process by its reference', async () => {
    const { owner, process, write, connect } = await left();
    const viewer = connect('viewer');
    viewer.attach(process);
    owner.attach(process, { withTimes: true });
    await settled();
    write('b');
    expect([owner.peer.events('p'), viewer.peer.events(process.ref)]).toEqual([['a', 'b'], ['b']]);
    expect(owner.peer.messages.at(-1)!.params).toMatchObject({ processId: 'p', timeMs: expect.any(Number) });
  });

  test('does not become the driver when another client leaves', async () => {
    const { process, connect } = await left();
    const other = connect('other');
    other.attach(process, { role: 'driver' });
    other.disconnect();
    expect(process.driver).toBeNull();
  });

  test('leaves no id behind when it is over, nor when the process is gone', async () => {
    const { owner, process, child, registry } = await left();
    registry.end(owner.session);
    expect([owner.session.shared.size, owner.processes.idOf(process)]).toEqual([0, process.ref]);
    const other = await left();
    child.finish(0);
    other.child.finish(0);
    await settled();
    await other.owner.processes.forget('p');
    expect(other.owner.session.shared.size).toBe(0);
  });
});

test('a session that detaches from a process of the lifetime `session` keeps getting its events', async () => {
  const { connect, run, records } = createSharing();
  const owner = connect('owner');
  const { process, child } = await run(owner, 'p', { windowBytes: 1 });
  owner.processes.detach('p');
  child.stdout.write('a');
  expect(child.stdout.paused).toBe(false);
  expect(owner.peer.events('p')).toEqual(['a']);
  expect(process.attachedClients).toEqual([{ client: 'owner', role: 'driver' }]);
  expect(records).toEqual([]);
});
