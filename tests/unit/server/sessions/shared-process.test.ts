import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ENDING_PROCESSES_PER_SESSION } from '../../../../src/server/limits.ts';
import { settled } from './registry-fixture.ts';
import { createSharing, VIEWED_RETENTION_MS, viewed } from './sharing-fixture.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: Date.UTC(2026, 0, 1) });
});

afterEach(() => {
  vi.useRealTimers();
});

const SKIPPED_2_TO_4 =
  '\r\n[events 2 to 4 of this process were skipped: another client drives it, and this client reads too slowly]\r\n';

describe('the time of output', () => {
  test('goes to connections that ask for it, live and from the log, and to no other', async () => {
    const { connect, run } = createSharing();
    const [owner, plain] = [connect('owner'), connect('plain')];
    const { process, child } = await run(owner, 'p');
    const startMs = Date.now();
    child.stdout.write('a');
    vi.advanceTimersByTime(5);
    const timed = connect('timed');
    plain.attach(process, { nextSeq: 1 });
    timed.attach(process, { nextSeq: 1, withTimes: true });
    await settled();
    vi.advanceTimersByTime(5);
    child.stdout.write('b');
    const times = (peer: typeof plain.peer, processId: string) =>
      peer.messages
        .filter(({ method, params }) => method === 'process/output' && params.processId === processId)
        .map(({ params }) => params.timeMs);
    expect(times(timed.peer, process.ref)).toEqual([startMs, startMs + 10]);
    expect(times(plain.peer, process.ref)).toEqual([undefined, undefined]);
    expect(times(owner.peer, 'p')).toEqual([undefined, undefined]);
    // It ends on request, and for a session with its connection.
    timed.attach(process, { withTimes: false });
    owner.attach(process, { withTimes: true });
    child.stdout.write('c');
    owner.session.detach();
    owner.session.attach(owner.peer);
    child.stdout.write('d');
    expect(times(timed.peer, process.ref).slice(2)).toEqual([undefined, undefined]);
    expect(times(owner.peer, 'p').slice(2)).toEqual([startMs + 10, undefined]);
  });
});

describe('a viewer', () => {
  test('gets every event of the process', async () => {
    const { owner, events, write, child } = await viewed();
    write('a', 'b');
    child.finish(0);
    expect(events()).toEqual(['a', 'b', 'exit', 'closed']);
    expect(owner.peer.events('p')).toEqual(['a', 'b', 'exit', 'closed']);
  });

  test('gets nothing before the response to its request', async () => {
    const { viewer, process, write, connect } = await viewed();
    const late = connect('late');
    late.attach(process, { nextSeq: 1 });
    write('a');
    expect(late.peer.messages).toEqual([]);
    expect(viewer.peer.events(process.ref)).toEqual(['a']);
    await settled();
    expect(late.peer.events(process.ref)).toEqual(['a']);
  });

  test('gets nothing while its connection is saturated, and nothing is paused', async () => {
    const { viewer, events, write, child } = await viewed();
    viewer.setSaturated(true);
    write('a', 'b');
    expect([events(), child.stdout.paused]).toEqual([[], false]);
  });

  test('continues with what is retained', async () => {
    const { viewer, events, write } = await viewed();
    viewer.setSaturated(true);
    write('a', 'b');
    viewer.setSaturated(false);
    write('c');
    expect(events()).toEqual(['a', 'b', 'c']);
  });

  test('skips to new output when a part of what it missed is gone', async () => {
    const { viewer, events, write } = await viewed({ tailBytes: 2 });
    write('a');
    viewer.setSaturated(true);
    write('b', 'c', 'd');
    viewer.setSaturated(false);
    write('e');
    expect(events()).toEqual(['a', '[2-4]', 'e']);
  });

  test('gets the exit and the end after a gap', async () => {
    const { viewer, events, write, child } = await viewed({ tailBytes: 2 });
    viewer.setSaturated(true);
    write('a', 'b', 'c');
    child.exit(0);
    write('d', 'e', 'f');
    child.endStreams();
    expect(events()).toEqual([]);
    viewer.setSaturated(false);
    expect(events()).toEqual(['[1-3]', 'exit', '[5-7]', 'closed']);
  });

  test('that asks for all output gets the gap first, then what is retained', async () => {
    const { process, connect, write } = await viewed({ tailBytes: 2 });
    write('a', 'b', 'c', 'd');
    const late = connect('late');
    late.attach(process, { nextSeq: 1 });
    write('e');
    await settled();
    write('f');
    expect(late.peer.events(process.ref)).toEqual(['[1-3]', 'd', 'e', 'f']);
  });

  test('stops in the middle of retained output when its connection is saturated', async () => {
    const { process, connect, write } = await viewed();
    write('a', 'b', 'c');
    const late = connect('late');
    const { peer } = late;
    const { sendBulk } = peer;
    peer.sendBulk = (frame) => {
      sendBulk.call(peer, frame);
      peer.saturated = peer.events(process.ref).length >= 2;
    };
    late.attach(process, { nextSeq: 1 });
    await settled();
    expect(peer.events(process.ref)).toEqual(['a', 'b']);
    peer.sendBulk = sendBulk;
    late.setSaturated(false);
    expect(peer.events(process.ref)).toEqual(['a', 'b', 'c']);
  });

  test.each(['before', 'after'])('that attaches right %s the end gets it', async (when) => {
    const { process, connect, child, write } = await viewed();
    write('a');
    const late = connect('late');
    if (when === 'after') child.finish(3);
    late.attach(process, { nextSeq: 1 });
    if (when === 'before') child.finish(3);
    await settled();
    expect(late.peer.events(process.ref)).toEqual(['a', 'exit', 'closed']);
  });

  test('that attaches right before the process is forgotten gets its end, and that it is gone', async () => {
    const { process, connect, child, write } = await viewed();
    write('a');
    child.finish(3);
    const late = connect('late');
    late.attach(process, { nextSeq: 1 });
    vi.advanceTimersByTime(VIEWED_RETENTION_MS);
    await settled();
    expect(late.peer.events(process.ref)).toEqual(['[1-1]', 'exit', 'closed']);
    expect(late.peer.roles(process.ref)).toEqual(['none processGone']);
    expect(() => late.attach(process)).toThrow(
      `process ${process.ref} exited with code 3 and closed at 2026-01-01T00:00:00.000Z; its output was removed at 2026-01-01T00:00:30.000Z`,
    );
  });

  test('whose connection is saturated gets the end of a process that is gone', async () => {
    const { viewer, process, events, child, write } = await viewed();
    viewer.setSaturated(true);
    write('a');
    child.finish(0);
    vi.advanceTimersByTime(VIEWED_RETENTION_MS);
    await settled();
    expect(viewer.peer.roles(process.ref)).toEqual(['viewer']);
    viewer.setSaturated(false);
    expect(events()).toEqual(['[1-1]', 'exit', 'closed']);
    expect(viewer.peer.roles(process.ref)).toEqual(['viewer', 'none processGone']);
    expect(process.attachedCount).toBe(0);
  });

  test('gets the end of a process that is killed with its session', async () => {
    const { registry, owner, process, connect, events, viewer } = await viewed();
    const late = connect('late');
    late.attach(process);
    registry.end(owner.session);
    late.attach(process);
    await settled();
    await settled();
    for (const { peer } of [viewer, late]) {
      expect(peer.events(process.ref)).toEqual(['exit', 'closed']);
      expect(peer.roles(process.ref).at(-1)).toBe('none processGone');
    }
    expect(events()).toHaveLength(2);
  });
});

describe('the program', () => {
  test('waits for its driver and not for a viewer', async () => {
    const { owner, viewer, process, child } = await viewed();
    viewer.setSaturated(true);
    expect(child.stdout.paused).toBe(false);
    owner.setSaturated(true);
    expect(child.stdout.paused).toBe(true);
    owner.setSaturated(false);
    viewer.setSaturated(false);
    viewer.attach(process, { role: 'driver', takeOver: true });
    owner.setSaturated(true);
    expect(child.stdout.paused).toBe(false);
    viewer.setSaturated(true);
    expect(child.stdout.paused).toBe(true);
    viewer.disconnect();
    expect(child.stdout.paused).toBe(true);
    owner.disconnect();
    expect(child.stdout.paused).toBe(false);
  });

  test.each([
    ['that knows sharing', true, ['a', '[2-4]', 'e']],
    ['that does not', false, ['a', SKIPPED_2_TO_4, '', '', 'e']],
  ])('does not wait for a session that was taken over, of a client %s', async (_, sharing, events) => {
    const { owner, viewer, process, child, write } = await viewed({ sharing, tailBytes: 2 });
    write('a');
    viewer.attach(process, { role: 'driver', takeOver: true });
    owner.setSaturated(true);
    write('b', 'c', 'd');
    expect(child.stdout.paused).toBe(false);
    owner.setSaturated(false);
    write('e');
    await settled();
    expect(owner.peer.events('p')).toEqual(events);
    expect(owner.peer.roles('p').length > 0).toBe(sharing);
    viewer.disconnect();
    owner.setSaturated(true);
    expect(child.stdout.paused).toBe(true);
  });

  test.each([true, false])(
    'that is gone is ended for a session that was behind; it knows sharing: %s',
    async (sharing) => {
      const { owner, viewer, process, child, write, run } = await viewed({ sharing });
      viewer.attach(process, { role: 'driver', takeOver: true });
      owner.setSaturated(true);
      write('a');
      child.finish(0);
      vi.advanceTimersByTime(VIEWED_RETENTION_MS);
      await settled();
      expect([process.process, owner.peer.events('p')]).toEqual([null, []]);
      owner.setSaturated(false);
      expect(owner.peer.events('p').slice(1)).toEqual(['exit', 'closed']);
      expect(owner.peer.events('p')[0]).toMatch(
        sharing ? '[1-1]' : 'events 1 to 1 of this process were skipped',
      );
      // Its id may have been used again. Then the client gets the events of the new process only.
      owner.setSaturated(true);
      const second = await run(owner, 'q');
      viewer.attach(second.process, { role: 'driver', takeOver: true });
      second.child.finish(0);
      vi.advanceTimersByTime(VIEWED_RETENTION_MS);
      const third = await run(owner, 'q');
      owner.setSaturated(false);
      third.child.finish(0);
      expect(owner.peer.events('q')).toEqual(['exit', 'closed']);
    },
  );

  test('that is gone is remembered for a limited number of ends that a session has not got', async () => {
    const { connect, run } = createSharing({ closedProcessRetentionMs: VIEWED_RETENTION_MS });
    const [owner, driver] = [connect('owner'), connect('driver')];
    owner.setSaturated(true);
    for (let index = 0; index <= ENDING_PROCESSES_PER_SESSION; index++) {
      const { process, child } = await run(owner, `p${index}`);
      driver.attach(process, { role: 'driver', takeOver: true });
      child.finish(0);
      if (index % 100 === 99) vi.advanceTimersByTime(VIEWED_RETENTION_MS);
      if (index % 100 === 99) await settled();
    }
    vi.advanceTimersByTime(VIEWED_RETENTION_MS);
    expect(owner.session.ending.size).toBe(ENDING_PROCESSES_PER_SESSION);
    owner.setSaturated(false);
    expect(owner.session.ending.size).toBe(0);
    expect(owner.peer.events('p0')).toEqual([]);
    expect(owner.peer.events(`p${ENDING_PROCESSES_PER_SESSION}`)).toEqual(['exit', 'closed']);
  });

  test('loses nothing for a viewer that becomes the driver while it is behind', async () => {
    const { viewer, process, child, write, events } = await viewed();
    viewer.setSaturated(true);
    write('a', 'b');
    viewer.attach(process, { role: 'driver', takeOver: true });
    write('c');
    expect(child.stdout.paused).toBe(true);
    viewer.setSaturated(false);
    expect(events()).toEqual(['a', 'b', 'c']);
  });
});
