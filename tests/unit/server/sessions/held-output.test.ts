import { describe, expect, test } from 'vitest';
import { settled } from './registry-fixture.ts';
import { createSharing } from './sharing-fixture.ts';

/** A process of which the output of one event is held. Its window is larger. */
async function started(options: { retainMs?: number } = {}) {
  const sharing = createSharing();
  const owner = sharing.connect('owner', { sharing: true });
  const { process, child } = await sharing.run(owner, 'p', { windowBytes: 10_000, heldBytes: 1, ...options });
  const consume = (seq: number, client = owner) => client.processes.consumed('p', seq);
  const resume = () => {
    sharing.registry.resume(owner.session.id);
    return sharing.connect('owner', { session: owner.session });
  };
  return { ...sharing, owner, process, child, consume, resume };
}

describe('a program whose output is held', () => {
  test('waits for a session without a connection, and continues when the session reports after its return', async () => {
    const { owner, child, consume, resume, process } = await started();
    child.stdout.write('a');
    expect(child.stdout.paused).toBe(true);
    consume(1);
    expect(child.stdout.paused).toBe(false);
    owner.disconnect();
    child.stdout.write('b');
    expect(child.stdout.paused).toBe(true);
    const back = resume();
    expect(child.stdout.paused).toBe(true);
    back.attach(process, { windowBytes: 10_000 });
    expect(child.stdout.paused).toBe(true);
    consume(1, back);
    expect(child.stdout.paused).toBe(true);
    consume(2, back);
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('c');
    expect(child.stdout.paused).toBe(true);
  });

  test('reports its exit after the output that is held', async () => {
    const { owner, child, consume, resume } = await started();
    owner.disconnect();
    child.stdout.write('a');
    child.stdout.write('b');
    child.finish(3);
    expect(child.stdout.paused).toBe(true);
    const back = resume();
    const found = await back.processes.get('p', 'read');
    expect(found.exitCode).toBe(null);
    consume(1, back);
    consume(2, back);
    expect(found.exitCode).toBe(3);
    expect(back.peer.events('p')).toEqual(['b', 'exit', 'closed']);
  });

  test('waits until the session is over', async () => {
    const { registry, owner, child, process } = await started({ retainMs: 1_000 });
    owner.disconnect();
    child.stdout.write('a');
    expect(child.stdout.paused).toBe(true);
    registry.end(owner.session);
    await settled();
    expect([child.stdout.paused, process.running]).toEqual([false, true]);
  });

  test('no longer waits when its client has detached', async () => {
    const { owner, child } = await started();
    child.stdout.write('a');
    owner.processes.detach('p');
    expect(child.stdout.paused).toBe(false);
    owner.disconnect();
    child.stdout.write('b');
    expect(child.stdout.paused).toBe(false);
  });

  test('ends when it is terminated', async () => {
    const { owner, child, resume } = await started();
    owner.disconnect();
    child.stdout.write('a');
    child.stdout.write('b');
    const back = resume();
    expect(await back.processes.terminate('p', { type: 'force' })).toBe(true);
    await settled();
    expect(back.peer.events('p')).toEqual(['b', 'exit', 'closed']);
  });

  test('continues for a client that has resumed the session, and reads it without a window', async () => {
    const { owner, child, resume } = await started();
    owner.disconnect();
    child.stdout.write('a');
    const back = resume();
    back.processes.requested('p', 0);
    expect(child.stdout.paused).toBe(true);
    back.processes.requested('p', 1);
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('b');
    expect(child.stdout.paused).toBe(true);
    back.processes.requested('p', Number.POSITIVE_INFINITY);
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('c');
    expect(child.stdout.paused).toBe(false);
  });

  test('waits for the driver and not for viewers', async () => {
    const { owner, child, connect, process, consume } = await started();
    const rival = connect('rival');
    rival.attach(process);
    child.stdout.write('a');
    rival.processes.consumed(process.ref, 1);
    expect(child.stdout.paused).toBe(true);
    rival.attach(process, { role: 'driver', takeOver: true, windowBytes: 10_000 });
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('b');
    consume(2);
    expect(child.stdout.paused).toBe(true);
    rival.processes.consumed(process.ref, 2);
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('c');
    rival.processes.detach(process.ref);
    expect([child.stdout.paused, process.driver?.sink]).toEqual([false, owner.session]);
    child.stdout.write('d');
    expect(child.stdout.paused).toBe(true);
  });

  test('does not wait for reports of a driver without a window', async () => {
    const { owner, child, connect, process } = await started();
    owner.disconnect();
    child.stdout.write('a');
    expect(child.stdout.paused).toBe(true);
    const rival = connect('rival');
    rival.attach(process, { role: 'driver' });
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('b');
    child.stdout.write('c');
    expect(child.stdout.paused).toBe(false);
    // The rest is held for the session.
    rival.disconnect();
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('d');
    expect(child.stdout.paused).toBe(true);
  });
});
