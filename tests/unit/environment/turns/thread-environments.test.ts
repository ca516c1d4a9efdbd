import { beforeEach, describe, expect, it } from 'vitest';
import type {
  ConnectionEvent,
  ThreadEnvironments,
} from '../../../../src/environment/turns/thread-environments.ts';
import { FakeConnector, refused, settle } from '../fakes.ts';
import { at, down, shape, ThreadScene } from './thread-scene.ts';

let scene: ThreadScene;
let thread: ThreadEnvironments;
beforeEach(() => {
  scene = new ThreadScene();
  thread = scene.thread;
});

describe('selecting', () => {
  it('keeps the order and the first of several for one environment', async () => {
    for (const id of ['a', 'b']) scene.register(id, FakeConnector.up());
    thread.select([at('b', { cwd: 'file:///first' }), at('a'), at('b', { cwd: 'file:///second' })]);
    const step = await thread.beginTurn();
    expect(step.environments).toEqual([
      {
        state: 'ready',
        environmentId: 'b',
        environment: scene.registry.get('b'),
        cwd: 'file:///first',
        workspaceRoots: [],
        shell: { name: 'bash', path: '/bin/bash' },
        config: null,
      },
      expect.objectContaining({ environmentId: 'a' }),
    ]);
    expect(step.primary).toBe(step.environments[0]);
  });

  it('warns of environments that do not exist, and finds them in a later turn', async () => {
    thread.select([at('a')]);
    expect(scene.warnings).toEqual(["the selected environment 'a' does not exist"]);
    expect(shape(await thread.beginTurn())).toEqual([]);
    scene.register('a', FakeConnector.up());
    expect(shape(await thread.beginTurn())).toEqual(['a ready']);
  });

  it('starts what has to be started', () => {
    const connector = new FakeConnector({ eager: false });
    scene.register('a', connector);
    expect(connector.attempts).toHaveLength(0);
    thread.select([at('a')]);
    expect(connector.attempts).toHaveLength(1);
  });

  it('during a turn changes the next one', async () => {
    for (const id of ['a', 'b']) scene.register(id, FakeConnector.up());
    thread.select([at('a')]);
    const step = await thread.beginTurn();
    thread.select([at('b')]);
    expect(shape(step.refresh())).toEqual(['a ready']);
    expect(shape(await thread.beginTurn())).toEqual(['b ready']);
  });
});

describe('a turn', () => {
  it('waits for every environment, and leaves out those that fail', async () => {
    const slow = scene.register('slow');
    scene.register('down', down());
    scene.register('up', FakeConnector.up());
    thread.select([at('slow'), at('down'), at('up')]);
    const beginning = thread.beginTurn();
    await settle();
    scene.connectorOf(slow).last.succeed();
    const step = await beginning;
    expect(shape(step)).toEqual(['slow ready', 'up ready']);
    expect(step.states).toEqual([
      { environmentId: 'slow', state: 'ready' },
      { environmentId: 'down', state: 'unavailable' },
      { environmentId: 'up', state: 'ready' },
    ]);
  });

  it('can be given up', async () => {
    scene.register('slow');
    thread.select([at('slow')]);
    await expect(thread.beginTurn({ timeoutMs: 5 })).rejects.toMatchObject({ kind: 'timeout' });
    await expect(thread.beginTurn({ signal: AbortSignal.abort() })).rejects.toMatchObject({
      kind: 'aborted',
    });
  });

  it('need not wait: what starts now is there in a later step', async () => {
    const slow = scene.register('slow');
    scene.register('up', FakeConnector.up());
    thread.select([at('slow'), at('up')]);
    await settle();
    const step = await thread.beginTurn({ wait: false });
    expect(shape(step)).toEqual(['slow starting', 'up ready']);
    expect(step.primary?.environmentId).toBe('up');
    expect([...step.captured]).toEqual([
      ['slow', null],
      ['up', scene.registry.get('up')],
    ]);
    scene.connectorOf(slow).last.succeed();
    await settle();
    expect(shape(step)).toEqual(['slow starting', 'up ready']);
    const next = step.refresh();
    expect(shape(next)).toEqual(['slow ready', 'up ready']);
    expect(next.primary?.environment).toBe(slow);
    expect(next.captured.get('slow')).toBe(slow);
  });

  it('uses an environment whose executor does not describe itself', async () => {
    const connector = FakeConnector.up();
    connector.respond = (attempt) => {
      attempt.client.environmentInfo = null;
      attempt.client.fetched = new Error('no such method');
      attempt.succeed();
    };
    scene.register('a', connector);
    thread.select([at('a')]);
    expect((await thread.beginTurn()).primary).toMatchObject({ state: 'ready', shell: null });
  });

  it('tries a failed environment again', async () => {
    const connector = down();
    scene.register('a', connector);
    thread.select([at('a')]);
    const step = await thread.beginTurn();
    expect(shape(step)).toEqual([]);
    connector.respond = (attempt) => attempt.succeed();
    await settle();
    expect(shape(step.refresh())).toEqual([]);
    expect(shape(await thread.beginTurn())).toEqual(['a ready']);
  });
});

describe('watching', () => {
  it('tells the state of what is selected, and every change', async () => {
    for (const id of ['a', 'b', 'c']) scene.register(id, FakeConnector.up());
    thread.select([at('a'), at('b')]);
    await thread.beginTurn();
    const seen: ConnectionEvent[] = [];
    const stop = thread.watchConnections((event) => seen.push(event));
    expect(seen.splice(0)).toEqual([
      { environmentId: 'a', connected: true, reason: null },
      { environmentId: 'b', connected: true, reason: null },
    ]);
    scene.connectorOf(scene.registry.get('a')!).last.client.become('recovering', refused('cut'));
    scene.connectorOf(scene.registry.get('c')!).last.client.become('recovering');
    expect(seen.splice(0)).toEqual([
      { environmentId: 'a', connected: false, reason: "environment 'a' is recovering: cut" },
    ]);
    stop();
    scene.connectorOf(scene.registry.get('a')!).last.client.become('connected');
    expect(seen).toEqual([]);
  });

  it('moves with the handle and ends with the selection', async () => {
    const old = scene.register('a', FakeConnector.up());
    const letGo = old.hold();
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = scene.register('a', FakeConnector.up());
    await settle();
    await thread.beginTurn();
    const seen: ConnectionEvent[] = [];
    thread.watchConnections((event) => seen.push(event));
    seen.splice(0);
    scene.connectorOf(old).last.client.become('recovering');
    expect(seen).toEqual([]);
    scene.connectorOf(fresh).last.client.become('recovering');
    expect(seen).toHaveLength(1);
    thread.select([]);
    scene.connectorOf(fresh).last.client.become('connected');
    expect(seen).toHaveLength(1);
    letGo();
  });
});

it('the end lets go of replaced handles', async () => {
  const old = scene.register('a', FakeConnector.up());
  thread.select([at('a')]);
  const step = await thread.beginTurn();
  scene.register('a');
  expect(scene.connectorOf(old).last.client.closed).toBe(false);
  thread.dispose();
  expect(scene.connectorOf(old).last.client.closed).toBe(true);
  expect(step.choose().environment).toBe(old);
});
