import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LazyConnection } from '../../../../src/environment/remote/lazy-connection.ts';
import { FakeConnector, failureOf, misconfigured, refused } from '../fake-connector.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('an executor that was connected before', () => {
  async function lost(options?: { reconnects?: boolean }) {
    const connector = FakeConnector.up(options);
    const lazy = new LazyConnection('it', connector);
    await lazy.lease();
    connector.last.client.become('failed', refused('gone for good'));
    return { connector, lazy };
  }

  it('is used while it recovers', async () => {
    const connector = FakeConnector.up();
    const lazy = new LazyConnection('it', connector);
    const first = await lazy.lease();
    connector.last.client.become('recovering');
    expect(lazy.readiness).toBeNull();
    expect((await lazy.lease()).connection).toBe(first.connection);
  });

  it('is connected again by the next use, with one shared attempt', async () => {
    const { connector, lazy } = await lost();
    expect(connector.attempts).toHaveLength(1);
    const [a, b] = await Promise.all([lazy.lease(), lazy.lease()]);
    expect(connector.attempts).toHaveLength(2);
    expect(a.connection).toBe(b.connection);
    expect(a.connection.client).toBe(connector.last.client);
  });

  it('is retried until it is back', async () => {
    const { connector, lazy } = await lost();
    connector.respond = (attempt, number) => (number < 6 ? attempt.fail(refused()) : attempt.succeed());
    const lease = lazy.lease();
    await vi.advanceTimersByTimeAsync(9_000);
    expect((await lease).connection.client).toBe(connector.last.client);
    expect(connector.attempts).toHaveLength(6);
  });

  it('is retried until the end of the window, and again by the next use', async () => {
    const { connector, lazy } = await lost();
    connector.respond = (attempt) => attempt.fail(refused('still down'));
    const failed = failureOf(lazy.lease());
    await vi.advanceTimersByTimeAsync(10_000);
    expect((await failed).message).toBe('still down');
    const tried = connector.attempts.length;
    expect(tried).toBeGreaterThan(10);
    connector.respond = (attempt) => attempt.succeed();
    await lazy.lease();
    expect(connector.attempts).toHaveLength(tried + 1);
  });

  it('is not retried after a permanent failure, except by the next use', async () => {
    const { connector, lazy } = await lost();
    connector.respond = (attempt) => attempt.fail(misconfigured('token refused'));
    expect((await failureOf(lazy.lease())).message).toBe('token refused');
    expect(connector.attempts).toHaveLength(2);
    connector.respond = (attempt) => attempt.succeed();
    await lazy.lease();
    expect(connector.attempts).toHaveLength(3);
  });

  it('stays lost until a restart when the transport cannot reconnect', async () => {
    const { connector, lazy } = await lost({ reconnects: false });
    expect((await failureOf(lazy.lease())).message).toBe('gone for good');
    expect(connector.attempts).toHaveLength(1);
    await lazy.restart();
    expect(lazy.readiness).toEqual({ ready: true });
    expect((await lazy.lease()).connection.client).toBe(connector.last.client);
  });

  it('stays lost after a restart that failed', async () => {
    const { connector, lazy } = await lost({ reconnects: false });
    connector.respond = (attempt) => attempt.fail(misconfigured('no such program'));
    await failureOf(lazy.restart());
    expect((await failureOf(lazy.lease())).message).toBe('no such program');
    expect(connector.attempts).toHaveLength(2);
  });
});

describe('restart', () => {
  it('closes the connection that works', async () => {
    const connector = FakeConnector.up();
    const lazy = new LazyConnection('it', connector);
    const { connection } = await lazy.lease();
    await lazy.restart();
    expect(connector.attempts[0]!.client.closed).toBe(true);
    expect((await lazy.lease()).connection).not.toBe(connection);
  });

  it('joins an attempt that is under way', async () => {
    const connector = new FakeConnector();
    const lazy = new LazyConnection('it', connector);
    lazy.start();
    const restarted = lazy.restart();
    connector.last.succeed();
    expect(await restarted).toMatchObject({ client: connector.last.client });
    expect(connector.attempts).toHaveLength(1);
  });
});
