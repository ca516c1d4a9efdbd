import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ClientError } from '../../../src/client/errors.ts';
import { EnvironmentManager } from '../../../src/environment/manager.ts';
import type { EnvironmentTransport, ProvidedEnvironments } from '../../../src/environment/provider.ts';
import type { RemoteEnvironment } from '../../../src/environment/remote/remote-environment.ts';
import { FakeConnector, refused, settle } from './fake-connector.ts';

const WS: EnvironmentTransport = { type: 'websocket', url: 'ws://h:1' };
const STDIO: EnvironmentTransport = { type: 'stdio', program: 'p' };

/** The connectors of a manager, in order. */
let connectors: FakeConnector[];
let managers: EnvironmentManager[];
beforeEach(() => {
  connectors = [];
  managers = [];
});
afterEach(async () => {
  await Promise.all(managers.map((manager) => manager.dispose()));
});

function connectorFor(transport: EnvironmentTransport): FakeConnector {
  const eager = transport.type !== 'stdio';
  const connector = new FakeConnector({ eager, reconnects: eager });
  connectors.push(connector);
  return connector;
}

function create(provided: Partial<ProvidedEnvironments> = {}): EnvironmentManager {
  const all = { environments: [], default: null, includeLocal: false, ...provided };
  const manager = new EnvironmentManager(all, { connectorFor });
  managers.push(manager);
  return manager;
}

describe('a new manager', () => {
  it('lists the default first, then this machine and the order of the provider', () => {
    const environments = ['z', 'a', 'm'].map((id) => ({ id, transport: WS }));
    expect(create({ environments }).ids).toEqual(['z', 'a', 'm']);
    expect(create({ environments, includeLocal: true }).ids).toEqual(['local', 'z', 'a', 'm']);
    const manager = create({ environments, includeLocal: true, default: 'm' });
    expect(manager.ids).toEqual(['m', 'local', 'z', 'a']);
    expect(manager.default).toBe(manager.get('m'));
    expect(manager.default?.kind).toBe('remote');
    expect(manager.get('local')?.kind).toBe('local');
  });

  it('may have no environment', async () => {
    const manager = create();
    expect(manager.ids).toEqual([]);
    expect(manager.default).toBeNull();
    expect(await manager.status('local')).toEqual({ status: 'unknown', error: null });
    expect(() => manager.require('local')).toThrow(
      "there is no environment 'local'; the environments are none",
    );
  });

  it('connects in the background, but starts no program', () => {
    create({
      environments: [
        { id: 'a', transport: WS },
        { id: 'b', transport: STDIO },
      ],
    });
    expect(connectors.map(({ attempts }) => attempts.length)).toEqual([1, 0]);
  });

  it('has the required skills', () => {
    const manager = create({ environments: [{ id: 'a', transport: WS, requiredSkills: ['x'] }] });
    expect(manager.require('a').requiredSkills).toEqual(['x']);
  });

  it.each<[string, Partial<ProvidedEnvironments>, string]>([
    ['an empty id', { environments: [{ id: '', transport: WS }] }, 'an environment has an empty id'],
    ['the id of this machine', { environments: [{ id: 'local', transport: WS }] }, "'local' is reserved"],
    [
      'an id twice',
      {
        environments: [
          { id: 'a', transport: WS },
          { id: 'a', transport: STDIO },
        ],
      },
      "two environments with the id 'a'",
    ],
    [
      'required skills that are not a list',
      { environments: [{ id: 'a', transport: WS, requiredSkills: 'x' as never }] },
      "the required skills of environment 'a' are not a list of names",
    ],
    [
      'a blank required skill',
      { environments: [{ id: 'a', transport: WS, requiredSkills: [' '] }] },
      "the required skills of environment 'a' are not a list of names",
    ],
    [
      'a default that does not exist',
      { environments: [{ id: 'a', transport: WS }], default: 'b' },
      "the default environment 'b' does not exist; the environments are first, a",
    ],
    ['this machine as a default without being there', { default: 'local' }, "'local' does not exist"],
    [
      'too many environments',
      {
        environments: Array.from({ length: 256 }, (_, n) => ({ id: `e${n}`, transport: WS })),
      },
      'there are more than 256 environments',
    ],
  ])('rejects %s before anything connects', (_name, provided, message) => {
    const environments = [{ id: 'first', transport: WS }, ...(provided.environments ?? [])];
    expect(() => create({ ...provided, environments })).toThrow(message);
    expect(connectors).toEqual([]);
  });

  it('opens the environments of a provider', async () => {
    const snapshot = async () => ({
      environments: [{ id: 'a', transport: WS }],
      default: 'a',
      includeLocal: false,
    });
    const manager = await EnvironmentManager.open({ snapshot }, { connectorFor });
    managers.push(manager);
    expect(manager.ids).toEqual(['a']);
  });
});

describe('add', () => {
  it('connects in the background and keeps the default', () => {
    const manager = create({ includeLocal: true, default: 'local' });
    const environment = manager.add('a', WS);
    expect(manager.get('a')).toBe(environment);
    expect(connectors[0]!.attempts).toHaveLength(1);
    expect(manager.defaultId).toBe('local');
    expect(manager.ids).toEqual(['local', 'a']);
  });

  it.each<[string, EnvironmentTransport]>([
    ['', WS],
    ['local', WS],
    ['a', { type: 'websocket', url: ' ' }],
    ['a', { type: 'websocket', url: 'None' }],
  ])('rejects %j with %j', (id, transport) => {
    const manager = create();
    expect(() => manager.add(id, transport)).toThrow(expect.objectContaining({ kind: 'config' }));
    expect(manager.ids).toEqual([]);
    expect(connectors.flatMap(({ attempts }) => attempts)).toEqual([]);
  });

  it.each<[string, unknown, string]>([
    ['no transport', undefined, 'it is missing; pass an object with a type'],
    ['null', null, 'it is null'],
    ['a text', 'ws://h:1', 'it is a string'],
    ['no type', { url: 'ws://h:1' }, "its 'type' is unknown; use one of websocket, stdio, opener"],
    ['an unknown type', { type: 'toString' }, "its 'type' is unknown"],
    ['no URL', { type: 'websocket' }, "'url' is missing; 'url' must be a URL"],
    ['a URL object', { type: 'websocket', url: new URL('ws://h:1') }, "'url' is an object"],
    ['a number as a token', { ...WS, authToken: 7 }, "'authToken' is a number"],
    ['a negative timeout', { ...WS, connectTimeoutMs: -1 }, "'connectTimeoutMs' is a number"],
    ['no number as a timeout', { ...WS, initializeTimeoutMs: Number.NaN }, 'a number of milliseconds'],
    ['no duration as a recovery window', { ...WS, recoveryWindowMs: '1h' }, "'recoveryWindowMs' is a string"],
    ['null as a timeout', { ...WS, connectTimeoutMs: null }, "'connectTimeoutMs' is null"],
    ['no program', { type: 'stdio' }, "'program' is missing"],
    ['a blank program', { type: 'stdio', program: ' ' }, "'program' is a string"],
    [
      'arguments in one text',
      { ...STDIO, args: '-v' },
      "'args' is a string; 'args' must be a list of strings",
    ],
    ['a number as an argument', { ...STDIO, args: [1] }, "'args' is a list"],
    ['a list as variables', { ...STDIO, env: ['A=1'] }, "'env' is a list"],
    ['a number as a directory', { ...STDIO, cwd: 1 }, "'cwd' is a number"],
    ['no function that opens', { type: 'opener', resumable: true }, "'open' is missing"],
    ['no resumable', { type: 'opener', open: () => {} }, "'resumable' is missing"],
  ])('rejects a malformed transport: %s', (_name, transport, message) => {
    const manager = create();
    const error = expect.objectContaining({ kind: 'config', message: expect.stringContaining(message) });
    const given = transport as EnvironmentTransport;
    expect(() => manager.add('a', given)).toThrow(ClientError);
    expect(() => manager.add('a', given)).toThrow(error);
    expect(() => manager.materializePending('a', given)).toThrow(error);
    expect(() => create({ environments: [{ id: 'a', transport: given }] })).toThrow(error);
    expect(manager.ids).toEqual([]);
    expect(connectors).toEqual([]);
  });

  it.each([[undefined], [null], [7], [{}]])('rejects the id %j', (id) => {
    expect(() => create().add(id as never, WS)).toThrow(expect.objectContaining({ kind: 'config' }));
  });

  it('does not show the token of a malformed transport', () => {
    const transport = { type: 'websocket', url: 7, authToken: 'secret' } as never;
    expect(() => create().add('a', transport)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('secret') }),
    );
  });

  it('accepts any other id', () => {
    const manager = create();
    manager.add('none', WS);
    manager.add('über 1', WS);
    expect(manager.ids).toEqual(['none', 'über 1']);
  });

  it('rejects too many environments, but allows a replacement', () => {
    const environments = Array.from({ length: 256 }, (_, n) => ({ id: `e${n}`, transport: WS }));
    const manager = create({ environments });
    expect(() => manager.add('one-more', WS)).toThrow('more than 256');
    manager.add('e7', WS);
    expect(manager.ids).toHaveLength(256);
  });

  it('rejects after dispose', async () => {
    const manager = create();
    await manager.dispose();
    expect(() => manager.add('a', WS)).toThrow(expect.objectContaining({ kind: 'closed' }));
  });
});

describe('a replacement', () => {
  it('keeps the position in the list of ids', () => {
    const environments = ['a', 'b'].map((id) => ({ id, transport: WS }));
    const manager = create({ environments, default: 'b' });
    const old = manager.require('a');
    const environment = manager.add('a', WS);
    expect(environment).not.toBe(old);
    expect(manager.require('a')).toBe(environment);
    expect(manager.ids).toEqual(['b', 'a']);
    expect(connectors[2]!.attempts).toHaveLength(1);
  });

  it('aborts a startup without waiting callers', () => {
    const manager = create({ environments: [{ id: 'a', transport: WS }] });
    manager.add('a', WS);
    expect(connectors[0]!.last.signal.aborted).toBe(true);
    expect(connectors[1]!.last.signal.aborted).toBe(false);
  });

  it('leaves the old handle usable', async () => {
    const manager = create({ environments: [{ id: 'a', transport: WS }] });
    const old = manager.require('a');
    const waiting = old.waitUntilReady();
    manager.add('a', WS);
    connectors[0]!.last.succeed();
    await waiting;
    connectors[0]!.respond = (attempt) => attempt.succeed();
    await old.waitUntilReady();
    expect(connectors[0]!.attempts).toHaveLength(2);
  });

  it('has the required skills of the replaced handle', () => {
    const manager = create({ environments: [{ id: 'a', transport: WS, requiredSkills: ['x'] }] });
    expect(manager.add('a', WS).requiredSkills).toEqual(['x']);
    expect(manager.add('b', WS).requiredSkills).toEqual([]);
  });

  it('that is invalid changes nothing', () => {
    const manager = create({ environments: [{ id: 'a', transport: WS }] });
    const old = manager.require('a');
    expect(() => manager.add('a', { type: 'websocket', url: '' })).toThrow();
    expect(manager.require('a')).toBe(old);
    expect(connectors[0]!.last.signal.aborted).toBe(false);
  });
});

describe('status and info', () => {
  it('returns the status of any id', async () => {
    const manager = create({ includeLocal: true, environments: [{ id: 'a', transport: WS }] });
    expect(await manager.status('local')).toEqual({ status: 'ready', error: null });
    expect(await manager.status('a')).toEqual({ status: 'pending', error: null });
    expect(await manager.status('b')).toEqual({ status: 'unknown', error: null });
    connectors[0]!.last.fail(refused('connection refused'));
    await settle();
    expect(await manager.status('a')).toEqual({ status: 'disconnected', error: 'connection refused' });
  });

  it('requests the info each time', async () => {
    const manager = create({ environments: [{ id: 'a', transport: WS }] });
    connectors[0]!.last.succeed();
    expect((await manager.info('a')).shell.path).toBe('/bin/zsh');
    await expect(manager.info('b')).rejects.toMatchObject({
      kind: 'invalidInput',
    } satisfies Partial<ClientError>);
  });
});

describe('provisioned environments', () => {
  const root = {
    id: 'r',
    location: { type: 'environment', environmentId: 'a', path: 'file:///r' },
  } as const;

  it('keep one handle in all states, and connect when used and ready', async () => {
    const manager = create();
    const environment = manager.materializePending('a', WS) as RemoteEnvironment;
    expect(manager.materializePending('a', WS)).toBe(environment);
    const connector = connectors[0]!;
    environment.startConnecting();
    expect(await environment.status()).toEqual({ status: 'pending', error: null });
    environment.startForUse();
    await settle();
    expect(connector.attempts).toHaveLength(0);
    manager.reportProvisioning('a', WS, { status: 'ready', roots: [root] });
    await settle();
    connector.last.succeed();
    await environment.waitUntilReady();
    expect(manager.get('a')).toBe(environment);
    expect(environment.provisioning?.roots).toEqual([root]);
  });

  it('that are ready do not connect before a use', async () => {
    const manager = create();
    manager.materializePending('a', WS);
    manager.reportProvisioning('a', WS, { status: 'ready', roots: [] });
    await settle();
    expect(connectors[0]!.attempts).toHaveLength(0);
  });

  it('that fail reject waiting callers', async () => {
    const manager = create();
    const waiting = manager.materializePending('a', WS).waitUntilReady();
    const failed = expect(waiting).rejects.toMatchObject({ message: 'no quota' });
    manager.reportProvisioning('a', WS, { status: 'failed', error: 'no quota' });
    await failed;
    expect(await manager.status('a')).toEqual({ status: 'disconnected', error: 'no quota' });
  });

  it('that are replaced before they are ready reject waiting callers', async () => {
    const manager = create();
    const pending = manager.materializePending('p', WS);
    const waiting = pending.waitUntilReady();
    const settled = expect(waiting).rejects.toThrow("environment 'p' was replaced before it was ready");
    manager.add('p', WS);
    await settled;
  });

  it('are created by a report, unless it is invalid', async () => {
    const manager = create();
    manager.reportProvisioning('a', WS, { status: 'ready', roots: [root] });
    expect((manager.require('a') as RemoteEnvironment).provisioning?.status).toBe('ready');
    manager.reportProvisioning('b', WS, { status: 'failed', error: 'no quota' });
    expect(await manager.status('b')).toEqual({ status: 'disconnected', error: 'no quota' });
    expect(() => manager.reportProvisioning('c', WS, { status: 'ready', roots: [root] })).toThrow(
      "root 'r' belongs to environment 'a'",
    );
    expect(manager.get('c')).toBeNull();
  });

  it('cannot have the id of another environment, whose reports are ignored', () => {
    const manager = create({ environments: [{ id: 'a', transport: WS }] });
    const environment = manager.require('a');
    expect(() => manager.materializePending('a', WS)).toThrow(
      "environment 'a' exists and is not provisioned",
    );
    manager.reportProvisioning('a', WS, { status: 'failed', error: 'x' });
    expect(manager.require('a')).toBe(environment);
    expect(environment.readiness).toBeNull();
  });

  it('cannot have the id of this machine', () => {
    expect(() => create().materializePending('local', WS)).toThrow('reserved');
  });
});

it('dispose closes all connections, including those of replaced handles', async () => {
  const manager = create({ environments: [{ id: 'a', transport: WS }] });
  const old = manager.require('a');
  const letGo = old.hold();
  connectors[0]!.last.succeed();
  await old.waitUntilReady();
  manager.add('a', WS);
  expect(connectors[0]!.last.client.closed).toBe(false);
  await manager.dispose();
  expect(connectors[0]!.last.client.closed).toBe(true);
  expect(connectors[1]!.last.signal.aborted).toBe(true);
  await expect(old.waitUntilReady()).rejects.toMatchObject({ kind: 'closed' });
  letGo();
});
