import { beforeEach, describe, expect, it } from 'vitest';
import type { Environment } from '../../../../src/environment/environment.ts';
import { RemoteEnvironment } from '../../../../src/environment/remote/remote-environment.ts';
import type { EnvironmentSelection } from '../../../../src/environment/turns/attachment.ts';
import type { StepSnapshot } from '../../../../src/environment/turns/step-snapshot.ts';
import {
  type ConnectionEvent,
  ThreadEnvironments,
} from '../../../../src/environment/turns/thread-environments.ts';
import { FakeConnector, misconfigured, refused, settle } from '../fakes.ts';

let registry: Map<string, RemoteEnvironment>;
let connectors: Map<Environment, FakeConnector>;
let warnings: string[];
let thread: ThreadEnvironments;
beforeEach(() => {
  registry = new Map();
  connectors = new Map();
  warnings = [];
  thread = new ThreadEnvironments({ get: (id) => registry.get(id) ?? null }, (text) => warnings.push(text));
});

/** Registers a handle, in place of the one that has the id. */
function register(id: string, connector = new FakeConnector()): RemoteEnvironment {
  const environment = new RemoteEnvironment(id, connector);
  connectors.set(environment, connector);
  registry.get(id)?.retire();
  registry.set(id, environment);
  environment.startConnecting();
  return environment;
}

function connectorOf(environment: Environment): FakeConnector {
  return connectors.get(environment)!;
}

function at(environmentId: string, more: Partial<EnvironmentSelection> = {}): EnvironmentSelection {
  return { environmentId, cwd: 'file:///w', ...more };
}

function shape(step: StepSnapshot): string[] {
  return step.environments.map(({ environmentId, state }) => `${environmentId} ${state}`);
}

const down = () => {
  const connector = new FakeConnector();
  connector.respond = (attempt) => attempt.fail(refused());
  return connector;
};

describe('selecting', () => {
  it('keeps the order and the first of several for one environment', async () => {
    for (const id of ['a', 'b']) register(id, FakeConnector.up());
    thread.select([at('b', { cwd: 'file:///first' }), at('a'), at('b', { cwd: 'file:///second' })]);
    const step = await thread.beginTurn();
    expect(step.environments).toEqual([
      {
        state: 'ready',
        environmentId: 'b',
        environment: registry.get('b'),
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
    expect(warnings).toEqual(["the selected environment 'a' does not exist"]);
    expect(shape(await thread.beginTurn())).toEqual([]);
    register('a', FakeConnector.up());
    expect(shape(await thread.beginTurn())).toEqual(['a ready']);
  });

  it('starts what has to be started', () => {
    const connector = new FakeConnector({ eager: false });
    register('a', connector);
    expect(connector.attempts).toHaveLength(0);
    thread.select([at('a')]);
    expect(connector.attempts).toHaveLength(1);
  });

  it('during a turn changes the next one', async () => {
    for (const id of ['a', 'b']) register(id, FakeConnector.up());
    thread.select([at('a')]);
    const step = await thread.beginTurn();
    thread.select([at('b')]);
    expect(shape(step.refresh())).toEqual(['a ready']);
    expect(shape(await thread.beginTurn())).toEqual(['b ready']);
  });
});

describe('a turn', () => {
  it('waits for every environment, and leaves out those that fail', async () => {
    const slow = register('slow');
    register('down', down());
    register('up', FakeConnector.up());
    thread.select([at('slow'), at('down'), at('up')]);
    const beginning = thread.beginTurn();
    await settle();
    connectorOf(slow).last.succeed();
    const step = await beginning;
    expect(shape(step)).toEqual(['slow ready', 'up ready']);
    expect(step.states).toEqual([
      { environmentId: 'slow', state: 'ready' },
      { environmentId: 'down', state: 'unavailable' },
      { environmentId: 'up', state: 'ready' },
    ]);
  });

  it('can be given up', async () => {
    register('slow');
    thread.select([at('slow')]);
    await expect(thread.beginTurn({ timeoutMs: 5 })).rejects.toMatchObject({ kind: 'timeout' });
    await expect(thread.beginTurn({ signal: AbortSignal.abort() })).rejects.toMatchObject({
      kind: 'aborted',
    });
  });

  it('need not wait: what starts now is there in a later step', async () => {
    const slow = register('slow');
    register('up', FakeConnector.up());
    thread.select([at('slow'), at('up')]);
    await settle();
    const step = await thread.beginTurn({ wait: false });
    expect(shape(step)).toEqual(['slow starting', 'up ready']);
    expect(step.primary?.environmentId).toBe('up');
    expect([...step.captured]).toEqual([
      ['slow', null],
      ['up', registry.get('up')],
    ]);
    connectorOf(slow).last.succeed();
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
    register('a', connector);
    thread.select([at('a')]);
    expect((await thread.beginTurn()).primary).toMatchObject({ state: 'ready', shell: null });
  });

  it('tries a failed environment again', async () => {
    const connector = down();
    register('a', connector);
    thread.select([at('a')]);
    const step = await thread.beginTurn();
    expect(shape(step)).toEqual([]);
    connector.respond = (attempt) => attempt.succeed();
    await settle();
    expect(shape(step.refresh())).toEqual([]);
    expect(shape(await thread.beginTurn())).toEqual(['a ready']);
  });
});

describe('a replaced handle', () => {
  it('is kept until the new one is ready, and left at the beginning of a turn', async () => {
    const old = register('a', FakeConnector.up());
    thread.select([at('a')]);
    const first = await thread.beginTurn();
    const fresh = register('a');
    expect(connectorOf(old).last.client.closed).toBe(false);
    expect((await thread.beginTurn()).primary?.environment).toBe(old);
    connectorOf(fresh).last.succeed();
    await settle();
    expect(first.refresh().primary?.environment).toBe(old);
    expect((await thread.beginTurn()).primary?.environment).toBe(fresh);
    expect(connectorOf(old).last.client.closed).toBe(true);
    expect(first.primary?.environment).toBe(old);
  });

  it('is left at once when it has failed', async () => {
    register('a', down());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = register('a', FakeConnector.up({ eager: false }));
    expect((await thread.beginTurn()).primary?.environment).toBe(fresh);
  });

  it('is left at once when it has never been ready', async () => {
    register('a');
    thread.select([at('a')]);
    expect(shape(await thread.beginTurn({ wait: false }))).toEqual(['a starting']);
    const fresh = register('a');
    const beginning = thread.beginTurn();
    connectorOf(fresh).last.succeed();
    expect((await beginning).primary?.environment).toBe(fresh);
  });

  it('is left at once when its connection has ended for good', async () => {
    const old = register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = register('a');
    connectorOf(old).last.client.become('failed', refused());
    const beginning = thread.beginTurn();
    connectorOf(fresh).last.succeed();
    expect((await beginning).primary?.environment).toBe(fresh);
  });

  it('is kept while it recovers', async () => {
    const old = register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    register('a');
    connectorOf(old).last.client.become('recovering');
    expect((await thread.beginTurn()).primary?.environment).toBe(old);
  });

  it('is left when the selection changes', async () => {
    for (const change of [{ cwd: 'file:///other' }, { workspaceRoots: ['file:///r'] }]) {
      register('a', FakeConnector.up());
      thread.select([at('a')]);
      await thread.beginTurn();
      const fresh = register('a', FakeConnector.up({ eager: false }));
      thread.select([at('a', change)]);
      expect((await thread.beginTurn()).primary).toMatchObject({ environment: fresh, ...change });
    }
  });

  it('is not left when the same is selected again', async () => {
    const old = register('a', FakeConnector.up());
    const workspaceRoots = ['file:///r'];
    thread.select([at('a', { workspaceRoots })]);
    await thread.beginTurn();
    register('a');
    thread.select([at('a', { workspaceRoots: [...workspaceRoots] })]);
    expect((await thread.beginTurn()).primary?.environment).toBe(old);
  });

  it('has the new one started, whatever it takes', async () => {
    register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = register('a', FakeConnector.up({ eager: false }));
    expect(connectorOf(fresh).attempts).toHaveLength(0);
    await thread.beginTurn();
    await settle();
    expect((await thread.beginTurn()).primary?.environment).toBe(fresh);
  });

  it('is not left by a turn that does not wait before the new one can be used at once', async () => {
    const old = register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = register('a', FakeConnector.up());
    await settle();
    const step = await thread.beginTurn({ wait: false });
    expect(step.primary?.environment).toBe(old);
    await settle();
    expect(step.refresh().primary?.environment).toBe(old);
    expect((await thread.beginTurn({ wait: false })).primary?.environment).toBe(fresh);
  });

  it('may be followed by the last of several', async () => {
    const old = register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const second = register('a');
    await thread.beginTurn();
    const third = register('a', down());
    await thread.beginTurn();
    await settle();
    connectorOf(second).last.succeed();
    await settle();
    expect((await thread.beginTurn()).primary?.environment).toBe(old);
    connectorOf(third).respond = (attempt) => attempt.succeed();
    await settle();
    await thread.beginTurn();
    await settle();
    expect((await thread.beginTurn()).primary?.environment).toBe(third);
    expect(connectorOf(second).last.client.closed).toBe(true);
  });

  it('takes its follower along when it is deselected', async () => {
    register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = register('a', FakeConnector.up());
    await thread.beginTurn({ wait: false });
    thread.select([]);
    await settle();
    fresh.retire();
    expect(connectorOf(fresh).last.client.closed).toBe(true);
  });

  it('gives its new configuration to its follower', async () => {
    register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = register('a');
    await thread.beginTurn();
    thread.configure('a', { source: 'owner', value: Promise.resolve(5) });
    connectorOf(fresh).last.succeed();
    await settle();
    expect((await thread.beginTurn()).primary).toMatchObject({ environment: fresh, config: 5 });
  });

  it('is kept when its id is gone', async () => {
    const old = register('a', FakeConnector.up());
    thread.select([at('a')]);
    await thread.beginTurn();
    registry.delete('a');
    expect((await thread.beginTurn()).primary?.environment).toBe(old);
  });
});

describe('configuration by the owner', () => {
  it('is waited for', async () => {
    register('a', FakeConnector.up());
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
    register('a', FakeConnector.up());
    thread.select([at('a', { config: { source: 'owner', value: Promise.reject(new Error('no config')) } })]);
    const step = await thread.beginTurn();
    expect(step.states).toEqual([{ environmentId: 'a', state: 'unavailable' }]);
  });

  it('may fail when nobody waits for it', async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => unhandled.push(reason);
    process.on('unhandledRejection', note);
    const failing = () => ({ source: 'owner', value: Promise.reject(new Error('no config')) }) as const;
    register('a', FakeConnector.up());
    thread.select([at('missing', { config: failing() }), at('a'), at('a', { config: failing() })]);
    thread.configure('missing', failing());
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
  });

  it('may change, and the environment is not ready before the new one is there', async () => {
    const environment = register('a', FakeConnector.up());
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
    expect(connectorOf(environment).attempts).toHaveLength(1);
    thread.select([at('a')]);
    expect((await thread.beginTurn()).primary?.config).toBeNull();
  });

  it('does not wake a failed environment when it changes', async () => {
    const connector = down();
    register('a', connector);
    thread.select([at('a')]);
    await thread.beginTurn();
    const attempts = connector.attempts.length;
    thread.configure('a', { source: 'owner', value: Promise.resolve(1) });
    await settle();
    expect(connector.attempts).toHaveLength(attempts);
    connector.respond = (attempt) => attempt.succeed();
    expect((await thread.beginTurn()).primary?.config).toBe(1);
  });

  it('that changes while another is waited for does not end the wait', async () => {
    register('a', FakeConnector.up());
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

describe('a tool call', () => {
  it('gets the environment it asks for, or the primary one', async () => {
    for (const id of ['a', 'b']) register(id, FakeConnector.up());
    thread.select([at('a'), at('b')]);
    const step = await thread.beginTurn();
    expect(step.choose().environmentId).toBe('a');
    expect(step.choose('b').environmentId).toBe('b');
    expect(() => step.choose('c')).toThrow("environment 'c' is not available; use one of a, b");
  });

  it('gets nothing when nothing is ready', async () => {
    register('slow');
    thread.select([at('slow')]);
    const step = await thread.beginTurn({ wait: false });
    expect(() => step.choose()).toThrow('no execution environment is available');
    expect(() => step.choose('slow')).toThrow('no execution environment is available');
  });

  it('may wait for an environment', async () => {
    const slow = register('slow');
    register('broken');
    thread.select([at('slow'), at('broken')]);
    const step = await thread.beginTurn({ wait: false });
    const waiting = step.waitForEnvironment('slow');
    connectorOf(slow).last.succeed();
    expect(await waiting).toEqual({ environmentId: 'slow', state: 'ready' });
    connectorOf(registry.get('broken')!).last.fail(misconfigured('bad URL'));
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

describe('watching', () => {
  it('tells the state of what is selected, and every change', async () => {
    for (const id of ['a', 'b', 'c']) register(id, FakeConnector.up());
    thread.select([at('a'), at('b')]);
    await thread.beginTurn();
    const seen: ConnectionEvent[] = [];
    const stop = thread.watchConnections((event) => seen.push(event));
    expect(seen.splice(0)).toEqual([
      { environmentId: 'a', connected: true, reason: null },
      { environmentId: 'b', connected: true, reason: null },
    ]);
    connectorOf(registry.get('a')!).last.client.become('recovering', refused('cut'));
    connectorOf(registry.get('c')!).last.client.become('recovering');
    expect(seen.splice(0)).toEqual([
      { environmentId: 'a', connected: false, reason: "environment 'a' is recovering: cut" },
    ]);
    stop();
    connectorOf(registry.get('a')!).last.client.become('connected');
    expect(seen).toEqual([]);
  });

  it('moves with the handle and ends with the selection', async () => {
    const old = register('a', FakeConnector.up());
    const letGo = old.hold();
    thread.select([at('a')]);
    await thread.beginTurn();
    const fresh = register('a', FakeConnector.up());
    await settle();
    await thread.beginTurn();
    const seen: ConnectionEvent[] = [];
    thread.watchConnections((event) => seen.push(event));
    seen.splice(0);
    connectorOf(old).last.client.become('recovering');
    expect(seen).toEqual([]);
    connectorOf(fresh).last.client.become('recovering');
    expect(seen).toHaveLength(1);
    thread.select([]);
    connectorOf(fresh).last.client.become('connected');
    expect(seen).toHaveLength(1);
    letGo();
  });
});

it('the end lets go of replaced handles', async () => {
  const old = register('a', FakeConnector.up());
  thread.select([at('a')]);
  const step = await thread.beginTurn();
  register('a');
  expect(connectorOf(old).last.client.closed).toBe(false);
  thread.dispose();
  expect(connectorOf(old).last.client.closed).toBe(true);
  expect(step.choose().environment).toBe(old);
});
