import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  ATTACHMENT_INTERVAL_MS,
  ATTACHMENTS_PER_CONNECTION,
  ATTACHMENTS_PER_PROCESS,
} from '../../../../src/server/limits.ts';
import { settled } from './registry-fixture.ts';
import { createSharing, VIEWED_RETENTION_MS, viewed } from './sharing-fixture.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: Date.UTC(2026, 0, 1) });
});

afterEach(() => {
  vi.useRealTimers();
});

describe('the driver', () => {
  test('is the session, unless an attached connection drives', async () => {
    const { owner, viewer, process, connect } = await viewed();
    const other = connect('other');
    expect(() => viewer.attach(process, { role: 'driver' })).toThrow(
      expect.objectContaining({ code: -32011, message: expect.stringContaining('by the client `owner`') }),
    );
    const follower = viewer.attach(process, { role: 'driver', takeOver: true });
    expect(process.roleOf(follower)).toBe('driver');
    expect(() => other.attach(process, { role: 'driver' })).toThrow('by the client `viewer`');
    viewer.attach(process, { role: 'viewer' });
    expect(process.attachedClients[0]).toEqual({ client: 'owner', role: 'driver' });
    owner.disconnect();
    other.attach(process, { role: 'driver' });
    expect(process.attachedClients).toEqual([
      { client: 'other', role: 'driver' },
      { client: 'viewer', role: 'viewer' },
    ]);
  });

  test('can be taken back by the session', async () => {
    const { owner, viewer, process } = await viewed();
    viewer.attach(process, { role: 'driver', takeOver: true });
    expect(() => owner.processes.find('p', 'write')).toThrow('driven by the client `viewer`');
    await owner.processes.find('p', 'signal');
    owner.attach(process, { role: 'driver', takeOver: true });
    await owner.processes.find('p', 'write');
    await settled();
    expect(viewer.peer.roles(process.ref)).toEqual(['viewer', 'viewer takenOver']);
  });

  test('is exactly one when two clients fight, and each is notified once per turn', async () => {
    const { owner, viewer, process, connect } = await viewed();
    const rival = connect('rival');
    rival.attach(process);
    await settled();
    const notified = [owner, viewer, rival].map(({ peer }) => peer.messages.length);
    for (let round = 0; round < 50; round++) {
      for (const client of [viewer, rival]) {
        client.attach(process, { role: 'driver', takeOver: true });
        expect(process.attachedClients.filter(({ role }) => role === 'driver')).toHaveLength(1);
      }
    }
    await settled();
    expect([owner, viewer, rival].map(({ peer }, index) => peer.messages.length - notified[index]!)).toEqual([
      1, 1, 1,
    ]);
    expect(viewer.peer.roles(process.ref).at(-1)).toBe('viewer takenOver');
    expect(rival.peer.roles(process.ref).at(-1)).toMatch(/^driver/);
    await expect(rival.processes.find(process.ref, 'write')).resolves.toBeDefined();
  });

  test('is reported to a session that comes back', async () => {
    const { registry, owner, viewer, process, connect } = await viewed();
    owner.disconnect();
    viewer.attach(process, { role: 'driver' });
    registry.resume(owner.session.id);
    const back = connect('owner', { session: owner.session });
    await settled();
    expect(back.peer.roles('p')).toEqual(['viewer']);
    viewer.disconnect();
    await settled();
    expect(back.peer.roles('p')).toEqual(['viewer', 'driver driverLeft']);
  });
});

describe('notifications', () => {
  test('of one turn are sent as one; none is queued for a client that does not keep up', async () => {
    const { viewer, process, connect } = await viewed();
    viewer.setSaturated(true);
    for (let round = 0; round < 100; round++) {
      const other = connect('other');
      other.attach(process);
      other.disconnect();
      await settled();
    }
    vi.advanceTimersByTime(ATTACHMENT_INTERVAL_MS);
    expect(viewer.peer.roles(process.ref)).toEqual(['viewer']);
    viewer.setSaturated(false);
    expect(viewer.peer.roles(process.ref)).toEqual(['viewer', 'viewer']);
  });

  test('of other clients are sent once per interval, and the last state arrives', async () => {
    const { owner, viewer, process, connect } = await viewed();
    vi.advanceTimersByTime(ATTACHMENT_INTERVAL_MS);
    const notified = () => owner.peer.roles('p').length;
    const before = notified();
    for (let round = 0; round < 100; round++) {
      const other = connect('other');
      other.attach(process);
      await settled();
      other.disconnect();
      await settled();
    }
    connect('last').attach(process);
    await settled();
    expect(notified() - before).toBe(1);
    vi.advanceTimersByTime(ATTACHMENT_INTERVAL_MS);
    expect(notified() - before).toBe(2);
    for (const { peer } of [owner, viewer]) {
      expect(peer.messages.at(-1)!.params).toMatchObject({
        attached: [{ client: 'owner' }, { client: 'viewer' }, { client: 'last' }],
        attachedCount: 3,
      });
    }
    vi.advanceTimersByTime(10 * ATTACHMENT_INTERVAL_MS);
    expect(notified() - before).toBe(2);
  });

  test('of its own role reach a client immediately and in order', async () => {
    const { owner, viewer, process } = await viewed();
    for (let round = 0; round < 3; round++) {
      viewer.attach(process, { role: 'driver', takeOver: true });
      await settled();
      viewer.attach(process, { role: 'viewer' });
      await settled();
    }
    const changes = owner.peer.roles('p').filter((role) => role.includes(' '));
    expect(changes).toEqual(
      Array.from({ length: 3 }, () => ['viewer takenOver', 'driver driverLeft']).flat(),
    );
  });

  test('name at most 64 clients, with names of 64 characters, and count all', async () => {
    const { process, connect, owner } = await viewed();
    for (let index = 0; index < 100; index++) connect('x'.repeat(1_000)).attach(process);
    await settled();
    vi.advanceTimersByTime(ATTACHMENT_INTERVAL_MS);
    const { attached, attachedCount } = owner.peer.messages.at(-1)!.params as {
      attached: { client: string }[];
      attachedCount: number;
    };
    expect([attached.length, attachedCount]).toEqual([64, 102]);
    expect(attached.at(-1)!.client).toBe(`${'x'.repeat(64)}…`);
  });
});

describe('attachments', () => {
  test('leave nothing after a thousand attaches and detaches', async () => {
    const { process, connect, viewer, directory } = await viewed();
    const other = connect('other');
    for (let round = 0; round < 1_000; round++) {
      other.attach(process, { role: round % 2 === 0 ? 'driver' : 'viewer', takeOver: true });
      if (round % 3 === 0) other.attach(process);
      other.processes.detach(process.ref);
    }
    expect(process.attachedClients).toEqual([
      { client: 'owner', role: 'driver' },
      { client: 'viewer', role: 'viewer' },
    ]);
    expect(directory.attachments).toBe(1);
    viewer.processes.dispose();
    expect([process.attachedCount, directory.attachments]).toEqual([1, 0]);
  });

  test('are limited for each process', async () => {
    const { process, connect } = await viewed();
    for (let index = 1; index < ATTACHMENTS_PER_PROCESS; index++) connect('many').attach(process);
    expect(() => connect('more').attach(process)).toThrow(expect.objectContaining({ code: -32001 }));
  });

  test('are limited for each connection, and free again when a process is gone', async () => {
    const { connect, run } = createSharing({ closedProcessRetentionMs: VIEWED_RETENTION_MS });
    const [owner, viewer] = [connect('owner'), connect('viewer')];
    for (let index = 0; index < ATTACHMENTS_PER_CONNECTION; index++) {
      const { process, child } = await run(owner, `p${index}`);
      viewer.attach(process);
      if (index === 0) child.finish(0);
    }
    const { process } = await run(owner, 'more');
    expect(() => viewer.attach(process)).toThrow(expect.objectContaining({ code: -32001 }));
    vi.advanceTimersByTime(VIEWED_RETENTION_MS);
    await settled();
    viewer.attach(process);
  });

  test('are recorded, with the client that was taken over', async () => {
    const { process, viewer, records } = await viewed();
    viewer.attach(process, { role: 'driver', takeOver: true });
    viewer.processes.detach(process.ref);
    expect(records).toEqual([
      ['attach', process.ref, { role: 'viewer', takenOverFrom: null }],
      ['attach', process.ref, { role: 'driver', takenOverFrom: 'owner' }],
      ['detach', process.ref, {}],
    ]);
  });
});
