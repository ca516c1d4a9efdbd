import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { OUTPUT_EVENT_OVERHEAD_BYTES } from '../../../../src/protocol/limits.ts';
import { HELD_OUTPUT_MIN_BYTES, HELD_WINDOW_MAX_BYTES } from '../../../../src/server/limits.ts';
import type { FakeSource } from '../../process/fake-child.ts';
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

  test('no longer waits when it is made to outlive the session, whose client may be gone', async () => {
    const { owner, child, process } = await started();
    child.stdout.write('a');
    expect(child.stdout.paused).toBe(true);
    await owner.processes.makeDetached('p', 1_000);
    expect([child.stdout.paused, process.lifetime]).toEqual([false, 'detached']);
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
    // Its window counts then: one event fills what is held, and two fill the window.
    rival.attach(process, { role: 'driver', takeOver: true, windowBytes: 1_000 });
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('b');
    expect(child.stdout.paused).toBe(false);
    child.stdout.write('c');
    consume(3);
    expect(child.stdout.paused).toBe(true);
    rival.processes.consumed(process.ref, 3);
    expect(child.stdout.paused).toBe(false);
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

  test('is finished when it has closed and its session has got the output', async () => {
    const { registry, directory, connect, run } = createSharing();
    const owner = connect('owner');
    const { child } = await run(owner, 'p', { windowBytes: 10_000, heldBytes: 10_000 });
    child.exit(0);
    expect(directory.unfinished).toBe(1);
    owner.disconnect();
    child.stdout.write('a');
    for (const source of child.outputs) (source as FakeSource).end();
    expect(directory.unfinished).toBe(1);
    registry.resume(owner.session.id);
    const back = connect('owner', { session: owner.session });
    expect(directory.unfinished).toBe(0);
    // It has left without a report of the last output.
    back.disconnect();
    expect(directory.unfinished).toBe(0);
  });

  test.each(['the session', 'the session after a resume', 'a client that has taken over'] as const)(
    'makes progress with every window of %s, if the client reports twice in each window',
    async (who) => {
      await fc.assert(
        fc.asyncProperty(SIZES, async ({ heldBytes, windowBytes, step, lag, eventBytes }) => {
          const sharing = createSharing();
          const owner = sharing.connect('owner');
          const first = {
            windowBytes: Math.min(windowBytes, HELD_WINDOW_MAX_BYTES),
            heldBytes,
            tailBytes: 2 * MIB,
          };
          const { process, child } = await sharing.run(owner, 'p', first);
          let [client, reportBytes] = [owner, first.windowBytes * step];
          if (who !== 'the session') {
            reportBytes = windowBytes * step;
            const isResumed = who === 'the session after a resume';
            if (isResumed) {
              owner.disconnect();
              sharing.registry.resume(owner.session.id);
            }
            client = sharing.connect('other', isResumed ? { session: owner.session } : {});
            client.attach(process, { role: 'driver', takeOver: true, windowBytes });
          }
          for (const { peer } of [owner, client]) peer.sendBulk = (_frame, released) => released?.();
          let [used, reported] = [0, 0];
          const use = (seq: number) => {
            used = Math.max(used, seq);
            if ((used - reported) * (eventBytes + OUTPUT_EVENT_OVERHEAD_BYTES) < reportBytes) return;
            reported = used;
            client.processes.consumed(client === owner ? 'p' : process.idFor(client.session), used);
          };
          const event = 'x'.repeat(eventBytes);
          const events = Math.ceil((2 * windowBytes + 2 * HELD_WINDOW_MAX_BYTES) / eventBytes);
          for (let seq = 1; seq <= events; seq++) {
            if (child.stdout.paused) use(seq - 1);
            expect(child.stdout.paused).toBe(false);
            child.stdout.write(event);
            use(seq - lag);
          }
          await sharing.registry.close(null, 0);
        }),
        { numRuns: 15 },
      );
    },
  );
});

const MIB = 1024 * 1024;

const SIZES = fc.record({
  heldBytes: fc.integer({ min: HELD_OUTPUT_MIN_BYTES, max: HELD_WINDOW_MAX_BYTES }),
  windowBytes: fc.oneof(fc.integer({ min: 1, max: 4 * MIB }), fc.constantFrom(MIB, 2 * MIB, 4 * MIB)),
  /** The part of the window after which the client reports. */
  step: fc.constantFrom(1 / 2, 1 / 3, 1 / 4, 1 / 8),
  /** How many events the client is behind. */
  lag: fc.nat({ max: 20 }),
  eventBytes: fc.constantFrom(20_000, 60_000, 65_536),
});
