import { beforeEach, describe, expect, it } from 'vitest';
import type { ThreadEnvironments } from '../../../../src/environment/turns/thread-environments.ts';
import { FakeConnector, settle } from '../fake-connector.ts';
import { at, down, shape, ThreadFixture } from './thread-fixture.ts';

let fixture: ThreadFixture;
let thread: ThreadEnvironments;
beforeEach(() => {
  fixture = new ThreadFixture();
  thread = fixture.thread;
});

describe('configuration by the owner', () => {
  it('delays the environment', async () => {
    fixture.register('a', FakeConnector.up());
    let arrive: (config: unknown) => void = () => {};
    const value = new Promise((resolve) => {
      arrive = resolve;
    });
    thread.select([at('a', { config: { source: 'owner', value } })]);
    await settle();
    const step = await thread.beginTurn({ wait: false });
    expect(shape(step)).toEqual(['a starting']);
    arrive({ model: 'x' });
    await settle();
    expect(step.refresh().primary?.config).toEqual({ model: 'x' });
  });

  it('that fails makes the environment unavailable', async () => {
    fixture.register('a', FakeConnector.up());
    thread.select([at('a', { config: { source: 'owner', value: Promise.reject(new Error('no config')) } })]);
    const step = await thread.beginTurn();
    expect(step.states).toEqual([{ environmentId: 'a', state: 'unavailable' }]);
  });

  it('may fail without a waiting caller', async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => unhandled.push(reason);
    process.on('unhandledRejection', note);
    const failing = () => ({ source: 'owner', value: Promise.reject(new Error('no config')) }) as const;
    fixture.register('a', FakeConnector.up());
    thread.select([at('missing', { config: failing() }), at('a'), at('a', { config: failing() })]);
    thread.configure('missing', failing());
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
  });

  it('may change, and the environment is ready after the new one arrives', async () => {
    const environment = fixture.register('a', FakeConnector.up());
    thread.select([at('a')]);
    const step = await thread.beginTurn();
    let arrive: (config: unknown) => void = () => {};
    thread.configure('a', {
      source: 'owner',
      value: new Promise((resolve) => {
        arrive = resolve;
      }),
    });
    await settle();
    expect(shape(step.refresh())).toEqual(['a starting']);
    arrive(7);
    expect((await thread.beginTurn()).primary).toMatchObject({ config: 7, environment });
    expect(fixture.connectorOf(environment).attempts).toHaveLength(1);
    thread.select([at('a')]);
    expect((await thread.beginTurn()).primary?.config).toBeNull();
  });

  it('does not retry a failed environment when it changes', async () => {
    const connector = down();
    fixture.register('a', connector);
    thread.select([at('a')]);
    await thread.beginTurn();
    const attempts = connector.attempts.length;
    thread.configure('a', { source: 'owner', value: Promise.resolve(1) });
    await settle();
    expect(connector.attempts).toHaveLength(attempts);
    connector.respond = (attempt) => attempt.succeed();
    expect((await thread.beginTurn()).primary?.config).toBe(1);
  });

  it('that changes does not end the wait for it', async () => {
    fixture.register('a', FakeConnector.up());
    let first: (config: unknown) => void = () => {};
    let second: (config: unknown) => void = () => {};
    const value = new Promise((resolve) => {
      first = resolve;
    });
    thread.select([at('a', { config: { source: 'owner', value } })]);
    const beginning = thread.beginTurn();
    thread.configure('a', {
      source: 'owner',
      value: new Promise((resolve) => {
        second = resolve;
      }),
    });
    first(1);
    await settle();
    second(2);
    expect((await beginning).primary?.config).toBe(2);
  });
});
