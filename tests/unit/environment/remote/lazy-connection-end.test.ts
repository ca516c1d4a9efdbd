import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ExecProcess } from '../../../../src/client/backend.ts';
import { LazyConnection } from '../../../../src/environment/remote/lazy-connection.ts';
import { FakeConnector, FakeProcess, failureOf, refused, settle } from '../fakes.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('a handle that was replaced', () => {
  it('gives up an attempt that nobody waits for', () => {
    const connector = new FakeConnector();
    const lazy = new LazyConnection('it', connector);
    lazy.start();
    lazy.retire();
    expect(connector.last.signal.aborted).toBe(true);
  });

  it('closes a connection that comes although the attempt was given up', async () => {
    const connector = new FakeConnector();
    const lazy = new LazyConnection('it', connector);
    lazy.start();
    lazy.retire();
    connector.last.succeed();
    await settle();
    expect(connector.last.client.closed).toBe(true);
    expect(lazy.connected).toBeNull();
  });

  it('serves those who wait, and closes behind the last of them', async () => {
    const connector = new FakeConnector();
    const lazy = new LazyConnection('it', connector);
    const leasing = lazy.lease();
    lazy.retire();
    expect(connector.last.signal.aborted).toBe(false);
    connector.last.succeed();
    const lease = await leasing;
    expect(connector.last.client.closed).toBe(false);
    lease.release();
    lease.release();
    expect(connector.last.client.closed).toBe(true);
  });

  it('keeps its connection for a process until that has ended', async () => {
    const connector = FakeConnector.up();
    const lazy = new LazyConnection('it', connector);
    const lease = await lazy.lease();
    const processes = [new FakeProcess(), new FakeProcess()];
    for (const process of processes) lazy.holdFor(process as unknown as ExecProcess);
    lease.release();
    lazy.retire();
    processes[0]!.end({ exited: true });
    processes[0]!.end({ closed: true });
    expect(connector.last.client.closed).toBe(false);
    processes[1]!.end({ failure: refused() });
    expect(connector.last.client.closed).toBe(true);
  });

  it('does not wait for a process that has ended before it is looked at', async () => {
    const connector = FakeConnector.up();
    const lazy = new LazyConnection('it', connector);
    const lease = await lazy.lease();
    const process = new FakeProcess();
    process.end({ closed: true });
    lazy.holdFor(process as unknown as ExecProcess);
    lease.release();
    lazy.retire();
    expect(connector.last.client.closed).toBe(true);
  });

  it('opens another connection for those who still use it', async () => {
    const connector = FakeConnector.up();
    const lazy = new LazyConnection('it', connector);
    (await lazy.lease()).release();
    lazy.retire();
    expect(connector.attempts[0]!.client.closed).toBe(true);
    expect(lazy.state).toEqual({ connected: false, reason: 'it was replaced and is unused' });
    const lease = await lazy.lease();
    expect(connector.attempts).toHaveLength(2);
    lease.release();
    expect(connector.last.client.closed).toBe(true);
  });

  it('keeps its connection while it is held', async () => {
    const connector = FakeConnector.up();
    const lazy = new LazyConnection('it', connector);
    (await lazy.lease()).release();
    const letGo = lazy.hold();
    lazy.retire();
    expect(connector.last.client.closed).toBe(false);
    letGo();
    expect(connector.last.client.closed).toBe(true);
  });
});

describe('dispose', () => {
  it('ends the wait of everybody and the attempt', async () => {
    const connector = new FakeConnector();
    const lazy = new LazyConnection('it', connector);
    const failed = failureOf(lazy.lease());
    await lazy.dispose();
    expect(await failed).toMatchObject({ kind: 'closed', message: 'it was closed' });
    expect(connector.last.signal.aborted).toBe(true);
    expect(await failureOf(lazy.lease())).toMatchObject({ kind: 'closed' });
    expect(await failureOf(lazy.restart())).toMatchObject({ kind: 'closed' });
    expect(connector.attempts).toHaveLength(1);
  });

  it('ends the pause between two attempts', async () => {
    const connector = FakeConnector.up();
    const lazy = new LazyConnection('it', connector);
    await lazy.lease();
    connector.last.client.become('failed', refused());
    connector.respond = (attempt) => attempt.fail(refused());
    const failed = failureOf(lazy.lease());
    await settle();
    await lazy.dispose();
    expect(await failed).toMatchObject({ kind: 'closed' });
    expect(vi.getTimerCount()).toBe(0);
  });

  it('closes the connection', async () => {
    const connector = FakeConnector.up();
    const lazy = new LazyConnection('it', connector);
    await lazy.lease();
    await lazy.dispose();
    await lazy.dispose();
    expect(connector.last.client.closed).toBe(true);
  });
});
