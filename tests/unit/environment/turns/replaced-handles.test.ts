import { beforeEach, describe, expect, it } from 'vitest';
import type { ThreadEnvironments } from '../../../../src/environment/turns/thread-environments.ts';
import { FakeConnector, refused, settle } from '../fakes.ts';
import { at, down, shape, ThreadScene } from './thread-scene.ts';

let scene: ThreadScene;
let thread: ThreadEnvironments;
beforeEach(() => {
  scene = new ThreadScene();
  thread = scene.thread;
});

describe('a replaced handle', () => {
  it('is kept until the new one is ready, and left at the beginning of a turn', async () => {
    const old = scene.register('a', FakeConnector.up());
    thread.select([at('a')]);
    const first = await thread.beginTurn();
    const fresh = scene.register('a');
    expect(scene.connectorOf(old).last.client.closed).toBe(false);
    expect((await thread.beginTurn()).primary?.environment).toBe(old);
    scene.connectorOf(fresh).last.succeed();
    await settle();
    expect(first.refresh().primary?.environment).toBe(old);
    expect((await thread.beginTurn()).primary?.environment).toBe(fresh);
    expect(scene.connectorOf(old).last.client.closed).toBe(true);
    expect(first.primary?.environment).toBe(old);
  });

  it('is left at once when it has failed', async () => {
    scene.register('a', down());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = scene.register('a', FakeConnector.up({ eager: false }));
    expect((await thread.beginTurn()).primary?.environment).toBe(fresh);
  });

  it('is left at once when it has never been ready', async () => {
    scene.register('a');
    thread.select([at('a')]);
    expect(shape(await thread.beginTurn({ wait: false }))).toEqual(['a starting']);
    const fresh = scene.register('a');
    const beginning = thread.beginTurn();
    scene.connectorOf(fresh).last.succeed();
    expect((await beginning).primary?.environment).toBe(fresh);
  });

  it('is left at once when its connection has ended for good', async () => {
    const old = scene.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = scene.register('a');
    scene.connectorOf(old).last.client.become('failed', refused());
    const beginning = thread.beginTurn();
    scene.connectorOf(fresh).last.succeed();
    expect((await beginning).primary?.environment).toBe(fresh);
  });

  it('is kept while it recovers', async () => {
    const old = scene.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    scene.register('a');
    scene.connectorOf(old).last.client.become('recovering');
    expect((await thread.beginTurn()).primary?.environment).toBe(old);
  });

  it('is left when the selection changes', async () => {
    for (const change of [{ cwd: 'file:///other' }, { workspaceRoots: ['file:///r'] }]) {
      scene.register('a', FakeConnector.up());
      thread.select([at('a')]);
      await thread.beginTurn();
      const fresh = scene.register('a', FakeConnector.up({ eager: false }));
      thread.select([at('a', change)]);
      expect((await thread.beginTurn()).primary).toMatchObject({ environment: fresh, ...change });
    }
  });

  it('is not left when the same is selected again', async () => {
    const old = scene.register('a', FakeConnector.up());
    const workspaceRoots = ['file:///r'];
    thread.select([at('a', { workspaceRoots })]);
    await thread.beginTurn();
    scene.register('a');
    thread.select([at('a', { workspaceRoots: [...workspaceRoots] })]);
    expect((await thread.beginTurn()).primary?.environment).toBe(old);
  });

  it('has the new one started, whatever it takes', async () => {
    scene.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = scene.register('a', FakeConnector.up({ eager: false }));
    expect(scene.connectorOf(fresh).attempts).toHaveLength(0);
    await thread.beginTurn();
    await settle();
    expect((await thread.beginTurn()).primary?.environment).toBe(fresh);
  });

  it('is not left by a turn that does not wait before the new one can be used at once', async () => {
    const old = scene.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = scene.register('a', FakeConnector.up());
    await settle();
    const step = await thread.beginTurn({ wait: false });
    expect(step.primary?.environment).toBe(old);
    await settle();
    expect(step.refresh().primary?.environment).toBe(old);
    expect((await thread.beginTurn({ wait: false })).primary?.environment).toBe(fresh);
  });

  it('may be followed by the last of several', async () => {
    const old = scene.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const second = scene.register('a');
    await thread.beginTurn();
    const third = scene.register('a', down());
    await thread.beginTurn();
    await settle();
    scene.connectorOf(second).last.succeed();
    await settle();
    expect((await thread.beginTurn()).primary?.environment).toBe(old);
    scene.connectorOf(third).respond = (attempt) => attempt.succeed();
    await settle();
    await thread.beginTurn();
    await settle();
    expect((await thread.beginTurn()).primary?.environment).toBe(third);
    expect(scene.connectorOf(second).last.client.closed).toBe(true);
  });

  it('takes its follower along when it is deselected', async () => {
    scene.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = scene.register('a', FakeConnector.up());
    await thread.beginTurn({ wait: false });
    thread.select([]);
    await settle();
    fresh.retire();
    expect(scene.connectorOf(fresh).last.client.closed).toBe(true);
  });

  it('gives its new configuration to its follower', async () => {
    scene.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = scene.register('a');
    await thread.beginTurn();
    thread.configure('a', { source: 'owner', value: Promise.resolve(5) });
    scene.connectorOf(fresh).last.succeed();
    await settle();
    expect((await thread.beginTurn()).primary).toMatchObject({ environment: fresh, config: 5 });
  });

  it('is kept when its id is gone', async () => {
    const old = scene.register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    scene.registry.delete('a');
    expect((await thread.beginTurn()).primary?.environment).toBe(old);
  });
});
