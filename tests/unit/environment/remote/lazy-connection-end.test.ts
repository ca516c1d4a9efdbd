import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ExecProcess } from '../../../../src/client/backend.ts';
import { LazyConnection } from '../../../../src/environment/remote/lazy-connection.ts';
import { FakeConnector, FakeProcess, failureOf, refused, settle } from '../fake-connector.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('a replaced handle', () => {
  it('aborts an attempt without waiting callers', () => {
    const connector = new FakeConnector();
    const lazy = new LazyConnection('it', connector);
    lazy.start();
    lazy.retire();
    expect(connector.last.signal.aborted).toBe(true);
  });

  it('closes a connection that opens after the abort', async () => {
    const connector = new FakeConnector();
    const lazy = new LazyConnection('it', connector);
    lazy.start();
    lazy.retire();
    connector.last.succeed();
    await settle();
    expect(connector.last.client.closed).toBe(true);
    expect(lazy.connected).toBeNull();
  });

  it('serves waiting callers, and closes after the last one', async () => {
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

  it('keeps its connection until a process has ended', async () => {
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

  it('ignores a process that has already ended', async () => {
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

  it('connects again for a later use', async () => {
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
  it('rejects all waiting callers and aborts the attempt', async () => {
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

  it('ends the delay between two attempts', async () => {
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
