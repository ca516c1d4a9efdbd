import { describe, expect, test } from 'vitest';
import { settled } from './registry-fixture.ts';
import { createSharing } from './sharing-fixture.ts';

/** A process whose client accepts one event at a time. */
async function started(options: { windowBytes?: number; retainMs?: number } = {}) {
  const sharing = createSharing();
  const owner = sharing.connect('owner', { sharing: true });
  const { process, child } = await sharing.run(owner, 'p', { windowBytes: 1, ...options });
  const consume = (seq: number, client = owner) => client.processes.consumed('p', seq);
  return { ...sharing, owner, process, child, consume };
}

describe('a program whose client has a window', () => {
  test('waits until the client has used its output', async () => {
    const { owner, child, consume } = await started();
    child.stdout.write('a');
    expect(child.stdout.paused).toBe(true);
    child.stdout.write('b');
    child.finish(0);
    expect(owner.peer.events('p')).toEqual(['a']);
    consume(1);
    expect(owner.peer.events('p')).toEqual(['a', 'b', 'exit']);
    consume(2);
    expect(owner.peer.events('p')).toEqual(['a', 'b', 'exit', 'closed']);
    consume(4);
    consume(99);
  });

  test('waits for its connection, too', async () => {
    const { owner, child, consume } = await started();
    child.stdout.write('a');
    owner.setSaturated(true);
    consume(1);
    expect(child.stdout.paused).toBe(true);
    owner.setSaturated(false);
    expect(child.stdout.paused).toBe(false);
  });

  test('can be read and waited for meanwhile', async () => {
    const { owner, child, consume } = await started();
    child.stdout.write('a');
    child.stdout.write('b');
    child.finish(5);
    const found = await owner.processes.get('p', 'read');
    const request = { afterSeq: 0, maxBytes: null, waitMs: 0 };
    const read = async () => {
      const page = await found.read(request, new AbortController().signal, () => {});
      return [page.chunks.length, page.nextSeq, page.exitCode];
    };
    expect(await read()).toEqual([1, 2, null]);
    expect(found.snapshot('stdout', 100).tail.toString()).toBe('a');
    expect(await found.wait('exited', 1)).toBe(false);
    consume(1);
    expect(await found.wait('exited', null)).toBe(true);
    consume(2);
    expect(await found.wait('closed', null)).toBe(true);
    expect(await read()).toEqual([2, 5, 5]);
  });

  test('ends when it is terminated, although nothing is used', async () => {
    const { owner, child } = await started();
    child.stdout.write('a');
    child.stdout.write('b');
    expect(await owner.processes.terminate('p', { type: 'force' })).toBe(true);
    await settled();
    expect(owner.peer.events('p')).toEqual(['a', 'b', 'exit', 'closed']);
  });

  test('does not wait while its session has no connection; the next one has no window until it asks for one', async () => {
    const { registry, owner, child, connect, consume, process } = await started();
    child.stdout.write('a');
    owner.disconnect();
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('b');
    child.stdout.write('c');
    expect(child.stdout.paused).toBe(false);
    registry.resume(owner.session.id);
    const back = connect('owner', { session: owner.session });
    child.stdout.write('d');
    expect(child.stdout.paused).toBe(false);
    back.attach(process, { windowBytes: 1 });
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('e');
    expect(child.stdout.paused).toBe(true);
    // What was used of the earlier output does not count.
    consume(4, back);
    expect(child.stdout.paused).toBe(true);
    consume(5, back);
    expect(child.stdout.paused).toBe(false);
  });

  test('does not wait for a session that is over', async () => {
    const { registry, owner, child, process } = await started({ retainMs: 1_000 });
    child.stdout.write('a');
    expect(child.stdout.paused).toBe(true);
    registry.end(owner.session);
    await settled();
    expect([child.stdout.paused, process.running]).toEqual([false, true]);
  });

  test('does not wait for a client that has detached from it, nor after its next connection', async () => {
    const { registry, owner, child, connect } = await started();
    child.stdout.write('a');
    owner.processes.detach('p');
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('b');
    owner.disconnect();
    registry.resume(owner.session.id);
    connect('owner', { session: owner.session });
    child.stdout.write('c');
    expect(child.stdout.paused).toBe(false);
  });

  test('waits for the client that drives, and for no viewer', async () => {
    const { owner, child, connect, process, consume } = await started();
    child.stdout.write('a');
    const rival = connect('rival');
    rival.attach(process);
    rival.processes.consumed(process.ref, 1);
    expect(child.stdout.paused).toBe(true);
    rival.attach(process, { role: 'driver', takeOver: true });
    await settled();
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('b');
    expect(child.stdout.paused).toBe(false);
    rival.attach(process, { role: 'driver', windowBytes: 1 });
    child.stdout.write('c');
    expect(child.stdout.paused).toBe(true);
    consume(3);
    expect(child.stdout.paused).toBe(true);
    rival.processes.consumed(process.ref, 3);
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('d');
    expect(child.stdout.paused).toBe(true);
    rival.processes.detach(process.ref);
    expect([child.stdout.paused, process.driver?.sink]).toEqual([false, owner.session]);
    child.stdout.write('e');
    expect(child.stdout.paused).toBe(true);
    consume(5);
    expect(child.stdout.paused).toBe(false);
  });

  test('sends a client that takes over the output that its window counts', async () => {
    const { child, connect, process } = await started();
    child.stdout.write('a');
    child.stdout.write('b');
    const rival = connect('rival');
    // The program continues during this call.
    rival.attach(process, { role: 'driver', takeOver: true, windowBytes: 1 });
    await settled();
    expect(rival.peer.events(process.ref)).toEqual(['b']);
  });

  test('does not wait for a connection that has ended before it could attach', async () => {
    const { child, connect, process, owner } = await started();
    const late = connect('late');
    late.disconnect();
    const request = { role: 'driver', takeOver: true, windowBytes: 1 } as const;
    expect(() => late.attach(process, request)).toThrow('the connection has ended');
    expect([process.attachments, process.driver?.sink]).toEqual([0, owner.session]);
    // A session that is resumed by another connection gets no window from the earlier one.
    owner.disconnect();
    connect('other', { session: owner.session });
    expect(() => owner.attach(process, { windowBytes: 1 })).toThrow('the connection has ended');
    child.stdout.write('a');
    expect(child.stdout.paused).toBe(false);
  });

  test('does not wait for a session that has lost its connection before the start', async () => {
    const { connect, run } = createSharing();
    const gone = connect('gone');
    gone.disconnect();
    const { child } = await run(gone, 'p', { windowBytes: 1 });
    connect('next', { session: gone.session });
    child.stdout.write('a');
    expect(child.stdout.paused).toBe(false);
  });

  test('reports the role to a session that was away when the driver left', async () => {
    const { registry, owner, connect, process } = await started();
    const rival = connect('rival');
    rival.attach(process, { role: 'driver', takeOver: true });
    await settled();
    owner.disconnect();
    rival.disconnect();
    await settled();
    registry.resume(owner.session.id);
    const back = connect('owner', { session: owner.session });
    await settled();
    expect([owner.peer.roles('p').at(-1), back.peer.roles('p')]).toEqual(['viewer takenOver', ['driver']]);
  });

  test('writes its last output when it is asked to end, although nothing is used', async () => {
    const { owner, child } = await started();
    child.stdout.write('a');
    expect(child.stdout.paused).toBe(true);
    await owner.processes.terminate('p', { type: 'graceful', timeoutMs: 60_000 });
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('bye');
    child.finish(7);
    await settled();
    expect(owner.peer.events('p')).toEqual(['a', 'bye', 'exit', 'closed']);
  });

  test('writes its last output when the server shuts down', async () => {
    const { registry, owner, child } = await started();
    child.stdout.write('a');
    const closed = registry.close(15, 60_000);
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('bye');
    child.finish(7);
    await closed;
    expect(owner.peer.events('p')).toEqual(['a', 'bye', 'exit', 'closed']);
  });

  test('takes no report of another client', async () => {
    const { child, connect } = await started();
    const stranger = connect('stranger');
    child.stdout.write('a');
    stranger.processes.consumed('p', 1);
    stranger.processes.consumed('nobody', 1);
    expect(child.stdout.paused).toBe(true);
  });
});
