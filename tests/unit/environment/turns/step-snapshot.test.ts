import { beforeEach, describe, expect, it } from 'vitest';
import type { ThreadEnvironments } from '../../../../src/environment/turns/thread-environments.ts';
import { FakeConnector, misconfigured } from '../fakes.ts';
import { at, ThreadScene } from './thread-scene.ts';

let scene: ThreadScene;
let thread: ThreadEnvironments;
beforeEach(() => {
  scene = new ThreadScene();
  thread = scene.thread;
});

describe('a tool call', () => {
  it('gets the environment it asks for, or the primary one', async () => {
    for (const id of ['a', 'b']) scene.register(id, FakeConnector.up());
    thread.select([at('a'), at('b')]);
    const step = await thread.beginTurn();
    expect(step.choose().environmentId).toBe('a');
    expect(step.choose('b').environmentId).toBe('b');
    expect(() => step.choose('c')).toThrow("environment 'c' is not available; use one of a, b");
  });

  it('gets nothing when nothing is ready', async () => {
    scene.register('slow');
    thread.select([at('slow')]);
    const step = await thread.beginTurn({ wait: false });
    expect(() => step.choose()).toThrow('no execution environment is available');
    expect(() => step.choose('slow')).toThrow('no execution environment is available');
  });

  it('may wait for an environment', async () => {
    const slow = scene.register('slow');
    scene.register('broken');
    thread.select([at('slow'), at('broken')]);
    const step = await thread.beginTurn({ wait: false });
    const waiting = step.waitForEnvironment('slow');
    scene.connectorOf(slow).last.succeed();
    expect(await waiting).toEqual({ environmentId: 'slow', state: 'ready' });
    scene.connectorOf(scene.registry.get('broken')!).last.fail(misconfigured('bad URL'));
    await expect(step.waitForEnvironment('broken')).rejects.toThrow(
      "environment 'broken' failed: bad URL; continue without it",
    );
    await expect(step.waitForEnvironment('other')).rejects.toThrow(
      "environment 'other' is not part of this turn; its environments are slow, broken",
    );
    await expect(step.waitForEnvironment('slow', { signal: AbortSignal.abort() })).rejects.toMatchObject({
      kind: 'aborted',
    });
  });
});
