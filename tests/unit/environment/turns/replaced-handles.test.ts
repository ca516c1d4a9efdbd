import { beforeEach, describe, expect, it } from 'vitest';
import type { ThreadEnvironments } from '../../../../src/environment/turns/thread-environments.ts';
import { FakeConnector, refused, settle } from '../fake-connector.ts';
import { at, down, shape, ThreadFixture } from './thread-fixture.ts';

let fixture: ThreadFixture;
let thread: ThreadEnvironments;
beforeEach(() => {
  fixture = new ThreadFixture();
  thread = fixture.thread;
});

describe('a replaced handle', () => {
  it('is kept until a turn starts with the new one ready', async () => {
    const old = fixture.register('a', FakeConnector.up());
    thread.select([at('a')]);
    const first = await thread.beginTurn();
    const fresh = fixture.register('a');
    expect(fixture.connectorOf(old).last.client.closed).toBe(false);
    expect((await thread.beginTurn()).primary?.environment).toBe(old);
    fixture.connectorOf(fresh).last.succeed();
    await settle();
    expect(first.refresh().primary?.environment).toBe(old);
    expect((await thread.beginTurn()).primary?.environment).toBe(fresh);
    expect(fixture.connectorOf(old).last.client.closed).toBe(true);
    expect(first.primary?.environment).toBe(old);
  });

  it('is dropped immediately when it has failed', async () => {
    fixture.register('a', down());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = fixture.register('a', FakeConnector.up({ eager: false }));
    expect((await thread.beginTurn()).primary?.environment).toBe(fresh);
  });

  it('is dropped immediately when it was never ready', async () => {
    fixture.register('a');
    thread.select([at('a')]);
    expect(shape(await thread.beginTurn({ wait: false }))).toEqual(['a starting']);
    const fresh = fixture.register('a');
    const beginning = thread.beginTurn();
    fixture.connectorOf(fresh).last.succeed();
    expect((await beginning).primary?.environment).toBe(fresh);
  });

  it('is dropped immediately when its connection has failed permanently', async () => {
    const old = fixture.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = fixture.register('a');
    fixture.connectorOf(old).last.client.become('failed', refused());
    const beginning = thread.beginTurn();
    fixture.connectorOf(fresh).last.succeed();
    expect((await beginning).primary?.environment).toBe(fresh);
  });

  it('is kept during a recovery', async () => {
    const old = fixture.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    fixture.register('a');
    fixture.connectorOf(old).last.client.become('recovering');
    expect((await thread.beginTurn()).primary?.environment).toBe(old);
  });

  it('is dropped when the selection changes', async () => {
    for (const change of [{ cwd: 'file:///other' }, { workspaceRoots: ['file:///r'] }]) {
      fixture.register('a', FakeConnector.up());
      thread.select([at('a')]);
      await thread.beginTurn();
      const fresh = fixture.register('a', FakeConnector.up({ eager: false }));
      thread.select([at('a', change)]);
      expect((await thread.beginTurn()).primary).toMatchObject({ environment: fresh, ...change });
    }
  });

  it('is kept when the same environment is selected again', async () => {
    const old = fixture.register('a', FakeConnector.up());
    const workspaceRoots = ['file:///r'];
    thread.select([at('a', { workspaceRoots })]);
    await thread.beginTurn();
    fixture.register('a');
    thread.select([at('a', { workspaceRoots: [...workspaceRoots] })]);
    expect((await thread.beginTurn()).primary?.environment).toBe(old);
  });

  it('starts the new one, even a program', async () => {
    fixture.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = fixture.register('a', FakeConnector.up({ eager: false }));
    expect(fixture.connectorOf(fresh).attempts).toHaveLength(0);
    await thread.beginTurn();
    await settle();
    expect((await thread.beginTurn()).primary?.environment).toBe(fresh);
  });

  it('is kept by a turn that does not wait until the new one is ready', async () => {
    const old = fixture.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = fixture.register('a', FakeConnector.up());
    await settle();
    const step = await thread.beginTurn({ wait: false });
    expect(step.primary?.environment).toBe(old);
    await settle();
    expect(step.refresh().primary?.environment).toBe(old);
    expect((await thread.beginTurn({ wait: false })).primary?.environment).toBe(fresh);
  });

  it('is followed by the newest of several replacements', async () => {
    const old = fixture.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const second = fixture.register('a');
    await thread.beginTurn();
    const third = fixture.register('a', down());
    await thread.beginTurn();
    await settle();
    fixture.connectorOf(second).last.succeed();
    await settle();
    expect((await thread.beginTurn()).primary?.environment).toBe(old);
    fixture.connectorOf(third).respond = (attempt) => attempt.succeed();
    await settle();
    await thread.beginTurn();
    await settle();
    expect((await thread.beginTurn()).primary?.environment).toBe(third);
    expect(fixture.connectorOf(second).last.client.closed).toBe(true);
  });

  it('is released with its successor when deselected', async () => {
    fixture.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = fixture.register('a', FakeConnector.up());
    await thread.beginTurn({ wait: false });
    thread.select([]);
    await settle();
    fresh.retire();
    expect(fixture.connectorOf(fresh).last.client.closed).toBe(true);
  });

  it('passes a new configuration to its successor', async () => {
    fixture.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = fixture.register('a');
    await thread.beginTurn();
    thread.configure('a', { source: 'owner', value: Promise.resolve(5) });
    fixture.connectorOf(fresh).last.succeed();
    await settle();
    expect((await thread.beginTurn()).primary).toMatchObject({ environment: fresh, config: 5 });
  });

  it('is kept when its id is removed', async () => {
    const old = fixture.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    fixture.registry.delete('a');
    expect((await thread.beginTurn()).primary?.environment).toBe(old);
  });
});
