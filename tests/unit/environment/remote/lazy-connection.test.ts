import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ClientError } from '../../../../src/client/errors.ts';
import type { ConnectionState } from '../../../../src/environment/environment.ts';
import { LazyConnection } from '../../../../src/environment/remote/lazy-connection.ts';
import { FakeConnector, failureOf, misconfigured, refused, settle } from '../fake-connector.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('the first attempt', () => {
  it('starts with the first use', async () => {
    const connector = FakeConnector.up();
    const lazy = new LazyConnection('it', connector);
    expect(connector.attempts).toHaveLength(0);
    expect(lazy.started).toBe(false);
    const { connection } = await lazy.lease();
    expect(connection.client).toBe(connector.last.client);
    expect(lazy.startupFinished).toBe(true);
  });

  it('is shared by concurrent callers', async () => {
    const connector = new FakeConnector();
    const lazy = new LazyConnection('it', connector);
    lazy.start();
    const leases = [lazy.lease(), lazy.lease()];
    expect(connector.attempts).toHaveLength(1);
    connector.last.succeed();
    const [a, b] = await Promise.all(leases);
    expect(a!.connection).toBe(b!.connection);
  });

  it('rejects all callers with the same error', async () => {
    const connector = new FakeConnector();
    const lazy = new LazyConnection('it', connector);
    const failures = [failureOf(lazy.lease()), failureOf(lazy.lease())];
    const error = refused();
    connector.last.fail(error);
    expect(await Promise.all(failures)).toEqual([error, error]);
    expect((await failures[0]) === error).toBe(true);
  });

  it('converts any failure to a ClientError', async () => {
    const connector = new FakeConnector();
    connector.respond = (attempt) => attempt.fail(new TypeError('broken'));
    const error = await failureOf(new LazyConnection('it', connector).lease());
    expect(error).toBeInstanceOf(ClientError);
    expect(error.message).toBe('broken');
  });

  it('is followed by another one after a transient failure', async () => {
    const connector = new FakeConnector();
    connector.respond = (attempt, number) => (number === 1 ? attempt.fail(refused()) : attempt.succeed());
    const lazy = new LazyConnection('it', connector);
    await failureOf(lazy.lease());
    expect(lazy.readiness).toMatchObject({ ready: false });
    await lazy.lease();
    expect(lazy.readiness).toEqual({ ready: true });
  });

  it('is the last one after a permanent failure', async () => {
    const connector = new FakeConnector();
    const error = misconfigured();
    connector.respond = (attempt) => attempt.fail(error);
    const lazy = new LazyConnection('it', connector);
    await failureOf(lazy.lease());
    expect(await failureOf(lazy.lease())).toBe(error);
    expect(connector.attempts).toHaveLength(1);
  });

  it('is the last one of a transport that cannot reconnect, even after a transient failure', async () => {
    const connector = new FakeConnector({ reconnects: false });
    const error = refused();
    connector.respond = (attempt) => attempt.fail(error);
    const lazy = new LazyConnection('it', connector);
    await failureOf(lazy.lease());
    expect(await failureOf(lazy.lease())).toBe(error);
    expect(connector.attempts).toHaveLength(1);
  });

  it('is not retried for an executor that was never connected', async () => {
    const connector = new FakeConnector();
    connector.respond = (attempt) => attempt.fail(refused());
    await failureOf(new LazyConnection('it', connector).lease());
    expect(connector.attempts).toHaveLength(1);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('in the background', () => {
  it('start makes only the first attempt', async () => {
    const connector = new FakeConnector();
    connector.respond = (attempt) => attempt.fail(refused());
    const lazy = new LazyConnection('it', connector);
    lazy.start();
    await settle();
    lazy.start();
    expect(connector.attempts).toHaveLength(1);
  });

  it('prepare makes the same attempt as a use', async () => {
    const connector = new FakeConnector();
    connector.respond = (attempt) => attempt.fail(refused());
    const lazy = new LazyConnection('it', connector);
    lazy.prepare();
    lazy.prepare();
    await settle();
    expect(connector.attempts).toHaveLength(1);
    connector.respond = (attempt) => attempt.fail(misconfigured());
    lazy.prepare();
    await settle();
    connector.respond = (attempt) => attempt.succeed();
    lazy.prepare();
    await settle();
    lazy.prepare();
    expect(connector.attempts).toHaveLength(3);
    expect(lazy.readiness).toEqual({ ready: true });
  });

  it('prepare does nothing where a use would fail immediately', async () => {
    const connector = new FakeConnector({ reconnects: false });
    connector.respond = (attempt) => attempt.fail(refused());
    const lazy = new LazyConnection('it', connector);
    lazy.prepare();
    await settle();
    lazy.prepare();
    expect(connector.attempts).toHaveLength(1);
    await lazy.dispose();
    lazy.prepare();
    await settle();
    expect(connector.attempts).toHaveLength(1);
  });
});

describe('the wait of a caller', () => {
  it('ends with its own deadline without aborting the attempt', async () => {
    const connector = new FakeConnector();
    const lazy = new LazyConnection('it', connector);
    const failed = failureOf(lazy.lease({ timeoutMs: 50 }));
    await vi.advanceTimersByTimeAsync(50);
    expect(await failed).toMatchObject({
      kind: 'timeout',
      message: 'connecting to it took longer than 50 ms',
    });
    connector.last.succeed();
    await settle();
    expect(lazy.readiness).toEqual({ ready: true });
  });

  it('ends with its own signal', async () => {
    const lazy = new LazyConnection('it', new FakeConnector());
    const abort = new AbortController();
    const failed = failureOf(lazy.lease({ signal: abort.signal }));
    abort.abort();
    expect(await failed).toMatchObject({ kind: 'aborted' });
  });

  it('does not begin when the signal has aborted', async () => {
    const connector = new FakeConnector();
    const lazy = new LazyConnection('it', connector);
    expect(await failureOf(lazy.lease({ signal: AbortSignal.abort() }))).toMatchObject({ kind: 'aborted' });
    expect(connector.attempts).toHaveLength(0);
  });

  it('passes the remaining time on', async () => {
    const connector = new FakeConnector();
    const lazy = new LazyConnection('it', connector);
    const leasing = lazy.lease({ timeoutMs: 100 });
    await vi.advanceTimersByTimeAsync(30);
    connector.last.succeed();
    expect((await leasing).options).toEqual({ timeoutMs: 70 });
  });
});

describe('leaseNow', () => {
  it('never connects', () => {
    const connector = new FakeConnector();
    const lazy = new LazyConnection('it', connector);
    expect(() => lazy.leaseNow()).toThrow('it is not ready: it was not started');
    lazy.start();
    expect(() => lazy.leaseNow()).toThrow('it is not ready: it is connecting');
    expect(connector.attempts).toHaveLength(1);
  });

  it('returns a working connection, or throws the reason', async () => {
    const connector = FakeConnector.up();
    const lazy = new LazyConnection('it', connector);
    await lazy.lease();
    expect(lazy.leaseNow().connection.client).toBe(connector.last.client);
    connector.last.client.become('recovering');
    expect(() => lazy.leaseNow()).toThrow('it is recovering');
    connector.last.client.become('failed', refused('gone'));
    expect(() => lazy.leaseNow()).toThrow('gone');
    expect(connector.attempts).toHaveLength(1);
  });
});

describe('the state', () => {
  it('is reported immediately and on every change', async () => {
    const connector = new FakeConnector();
    const lazy = new LazyConnection('it', connector);
    const seen: ConnectionState[] = [];
    const stop = lazy.watch((state) => seen.push(state));
    lazy.start();
    connector.last.fail(refused('connection refused'));
    await settle();
    connector.respond = (attempt) => attempt.succeed();
    await lazy.lease();
    const { client } = connector.last;
    client.become('connected');
    client.become('recovering', refused('cut'));
    client.become('connected');
    client.become('failed', refused('gone for good'));
    expect(seen).toEqual([
      { connected: false, reason: 'it was not started' },
      { connected: false, reason: 'it is connecting' },
      { connected: false, reason: 'connection refused' },
      { connected: true, reason: null },
      { connected: false, reason: 'it is recovering: cut' },
      { connected: true, reason: null },
      { connected: false, reason: 'gone for good' },
    ]);
    const late: ConnectionState[] = [];
    lazy.watch((state) => late.push(state));
    expect(late).toEqual([{ connected: false, reason: 'gone for good' }]);
    stop();
    await lazy.lease();
    expect(seen).toHaveLength(7);
    expect(late.at(-1)).toEqual({ connected: true, reason: null });
  });

  it('ignores a replaced client', async () => {
    const connector = FakeConnector.up();
    const lazy = new LazyConnection('it', connector);
    await lazy.lease();
    await lazy.restart();
    const [old] = connector.attempts;
    old!.client.become('failed', refused());
    expect(lazy.state).toEqual({ connected: true, reason: null });
    expect(old!.client.listenerCount).toBe(0);
  });
});

describe('refuse', () => {
  it('makes the first use fail without an attempt', async () => {
    const connector = new FakeConnector();
    const lazy = new LazyConnection('it', connector);
    const error = misconfigured('never');
    lazy.refuse(error);
    expect(lazy.readiness).toEqual({ ready: false, error });
    expect(await failureOf(lazy.lease())).toBe(error);
    lazy.start();
    expect(connector.attempts).toHaveLength(0);
  });

  it('has no effect after an attempt', async () => {
    const connector = FakeConnector.up();
    const lazy = new LazyConnection('it', connector);
    await lazy.lease();
    lazy.refuse(misconfigured());
    expect(lazy.readiness).toEqual({ ready: true });
  });
});
