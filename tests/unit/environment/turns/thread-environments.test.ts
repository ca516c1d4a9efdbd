import { beforeEach, describe, expect, it } from 'vitest';
import type {
  ConnectionEvent,
  ThreadEnvironments,
} from '../../../../src/environment/turns/thread-environments.ts';
import { FakeConnector, refused, settle } from '../fake-connector.ts';
import { at, down, shape, ThreadFixture } from './thread-fixture.ts';

let fixture: ThreadFixture;
let thread: ThreadEnvironments;
beforeEach(() => {
  fixture = new ThreadFixture();
  thread = fixture.thread;
});

describe('selecting', () => {
  it('keeps the order and the first selection of an environment', async () => {
    for (const id of ['a', 'b']) fixture.register(id, FakeConnector.up());
    thread.select([at('b', { cwd: 'file:///first' }), at('a'), at('b', { cwd: 'file:///second' })]);
    const step = await thread.beginTurn();
    expect(step.environments).toEqual([
      {
        state: 'ready',
        environmentId: 'b',
        environment: fixture.registry.get('b'),
        cwd: 'file:///first',
        workspaceRoots: [],
        shell: { name: 'bash', path: '/bin/bash' },
        config: null,
      },
      expect.objectContaining({ environmentId: 'a' }),
    ]);
    expect(step.primary).toBe(step.environments[0]);
  });

  it('warns of missing environments, and finds them in a later turn', async () => {
    thread.select([at('a')]);
    expect(fixture.warnings).toEqual(["the selected environment 'a' does not exist"]);
    expect(shape(await thread.beginTurn())).toEqual([]);
    fixture.register('a', FakeConnector.up());
    expect(shape(await thread.beginTurn())).toEqual(['a ready']);
  });

  it('starts the environments', () => {
    const connector = new FakeConnector({ eager: false });
    fixture.register('a', connector);
    expect(connector.attempts).toHaveLength(0);
    thread.select([at('a')]);
    expect(connector.attempts).toHaveLength(1);
  });

  it('during a turn affects the next turn', async () => {
    for (const id of ['a', 'b']) fixture.register(id, FakeConnector.up());
    thread.select([at('a')]);
    const step = await thread.beginTurn();
    thread.select([at('b')]);
    expect(shape(step.refresh())).toEqual(['a ready']);
    expect(shape(await thread.beginTurn())).toEqual(['b ready']);
  });
});

describe('a turn', () => {
  it('waits for every environment, and skips failed ones', async () => {
    const slow = fixture.register('slow');
    fixture.register('down', down());
    fixture.register('up', FakeConnector.up());
    thread.select([at('slow'), at('down'), at('up')]);
    const beginning = thread.beginTurn();
    await settle();
    fixture.connectorOf(slow).last.succeed();
    const step = await beginning;
    expect(shape(step)).toEqual(['slow ready', 'up ready']);
    expect(step.states).toEqual([
      { environmentId: 'slow', state: 'ready' },
      { environmentId: 'down', state: 'unavailable' },
      { environmentId: 'up', state: 'ready' },
    ]);
  });

  it('can be aborted', async () => {
    fixture.register('slow');
    thread.select([at('slow')]);
    await expect(thread.beginTurn({ timeoutMs: 5 })).rejects.toMatchObject({ kind: 'timeout' });
    await expect(thread.beginTurn({ signal: AbortSignal.abort() })).rejects.toMatchObject({
      kind: 'aborted',
    });
  });

  it('may start without waiting; a later step has the environments that became ready', async () => {
    const slow = fixture.register('slow');
    fixture.register('up', FakeConnector.up());
    thread.select([at('slow'), at('up')]);
    await settle();
    const step = await thread.beginTurn({ wait: false });
    expect(shape(step)).toEqual(['slow starting', 'up ready']);
    expect(step.primary?.environmentId).toBe('up');
    expect([...step.captured]).toEqual([
      ['slow', null],
      ['up', fixture.registry.get('up')],
    ]);
    fixture.connectorOf(slow).last.succeed();
    await settle();
    expect(shape(step)).toEqual(['slow starting', 'up ready']);
    const next = step.refresh();
    expect(shape(next)).toEqual(['slow ready', 'up ready']);
    expect(next.primary?.environment).toBe(slow);
    expect(next.captured.get('slow')).toBe(slow);
  });

  it('uses an environment without a description', async () => {
    const connector = FakeConnector.up();
    connector.respond = (attempt) => {
      attempt.client.environmentInfo = null;
      attempt.client.fetched = new Error('no such method');
      attempt.succeed();
    };
    fixture.register('a', connector);
    thread.select([at('a')]);
    expect((await thread.beginTurn()).primary).toMatchObject({ state: 'ready', shell: null });
  });

  it('retries a failed environment', async () => {
    const connector = down();
    fixture.register('a', connector);
    thread.select([at('a')]);
    const step = await thread.beginTurn();
    expect(shape(step)).toEqual([]);
    connector.respond = (attempt) => attempt.succeed();
    await settle();
    expect(shape(step.refresh())).toEqual([]);
    expect(shape(await thread.beginTurn())).toEqual(['a ready']);
  });
});

describe('watchConnections', () => {
  it('reports the states of the selection and every change', async () => {
    for (const id of ['a', 'b', 'c']) fixture.register(id, FakeConnector.up());
    thread.select([at('a'), at('b')]);
    await thread.beginTurn();
    const seen: ConnectionEvent[] = [];
    const stop = thread.watchConnections((event) => seen.push(event));
    expect(seen.splice(0)).toEqual([
      { environmentId: 'a', connected: true, reason: null },
      { environmentId: 'b', connected: true, reason: null },
    ]);
    fixture.connectorOf(fixture.registry.get('a')!).last.client.become('recovering', refused('cut'));
    fixture.connectorOf(fixture.registry.get('c')!).last.client.become('recovering');
    expect(seen.splice(0)).toEqual([
      { environmentId: 'a', connected: false, reason: "environment 'a' is recovering: cut" },
    ]);
    stop();
    fixture.connectorOf(fixture.registry.get('a')!).last.client.become('connected');
    expect(seen).toEqual([]);
  });

  it('follows the handle and ends with the selection', async () => {
    const old = fixture.register('a', FakeConnector.up());
    const letGo = old.hold();
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = fixture.register('a', FakeConnector.up());
    await settle();
    await thread.beginTurn();
    const seen: ConnectionEvent[] = [];
    thread.watchConnections((event) => seen.push(event));
    seen.splice(0);
    fixture.connectorOf(old).last.client.become('recovering');
    expect(seen).toEqual([]);
    fixture.connectorOf(fresh).last.client.become('recovering');
    expect(seen).toHaveLength(1);
    thread.select([]);
    fixture.connectorOf(fresh).last.client.become('connected');
    expect(seen).toHaveLength(1);
    letGo();
  });
});

it('dispose releases replaced handles', async () => {
  const old = fixture.register('a', FakeConnector.up());
  thread.select([at('a')]);
  const step = await thread.beginTurn();
  fixture.register('a');
  expect(fixture.connectorOf(old).last.client.closed).toBe(false);
  thread.dispose();
  expect(fixture.connectorOf(old).last.client.closed).toBe(true);
  expect(step.choose().environment).toBe(old);
});
