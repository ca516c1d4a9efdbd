import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ExecutorFileSystem, FileWatch, StartParams } from '../../../../src/client/backend.ts';
import { ClientError } from '../../../../src/client/errors.ts';
import { Provisioning } from '../../../../src/environment/provisioning.ts';
import { RemoteEnvironment } from '../../../../src/environment/remote/remote-environment.ts';
import { FakeConnector, info, misconfigured, refused, settle } from '../fake-connector.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const PARAMS: StartParams = { processId: 'p', argv: ['true'], cwd: 'file:///', env: {}, tty: false };

it('has one backend under two names', () => {
  const environment = new RemoteEnvironment('box', new FakeConnector());
  expect(environment.getExecBackend()).toBe(environment.backend);
});

describe('starting', () => {
  it('happens in the background where it is cheap', () => {
    const connector = new FakeConnector({ eager: true });
    new RemoteEnvironment('box', connector).startConnecting();
    expect(connector.attempts).toHaveLength(1);
  });

  it('of a program happens on first use', () => {
    const connector = new FakeConnector({ eager: false });
    const environment = new RemoteEnvironment('box', connector);
    environment.startConnecting();
    expect(connector.attempts).toHaveLength(0);
    environment.startForUse();
    expect(connector.attempts).toHaveLength(1);
  });

  it('is not caused by reading the status or the readiness', async () => {
    const connector = new FakeConnector();
    const environment = new RemoteEnvironment('box', connector);
    expect(await environment.status()).toEqual({ status: 'pending', error: null });
    expect(environment.readiness).toBeNull();
    expect(environment.startupFinished).toBe(false);
    await expect(environment.passiveFileSystem.readFile('file:///x')).rejects.toThrow(
      "environment 'box' is not ready",
    );
    expect(connector.attempts).toHaveLength(0);
  });
});

describe('status', () => {
  it('is pending during the first attempt', async () => {
    const environment = new RemoteEnvironment('box', new FakeConnector());
    environment.startConnecting();
    expect(await environment.status()).toEqual({ status: 'pending', error: null });
  });

  it('reports a failure, also during another attempt', async () => {
    const connector = new FakeConnector();
    const environment = new RemoteEnvironment('box', connector);
    environment.startConnecting();
    connector.last.fail(refused('connection refused'));
    await settle();
    const expected = { status: 'disconnected', error: 'connection refused' };
    expect(await environment.status()).toEqual(expected);
    const waiting = environment.waitUntilReady();
    expect(connector.attempts).toHaveLength(2);
    expect(await environment.status()).toEqual(expected);
    connector.last.succeed();
    await waiting;
    expect(await environment.status()).toEqual({ status: 'ready', error: null });
  });

  it('probes the executor each time', async () => {
    const connector = FakeConnector.up();
    const environment = new RemoteEnvironment('box', connector);
    await environment.waitUntilReady();
    const { client } = connector.last;
    let asked = 0;
    client.alive = async () => {
      asked++;
      if (asked > 1) throw new ClientError('timeout', 'no answer');
    };
    expect(await environment.status()).toEqual({ status: 'ready', error: null });
    expect(await environment.status()).toEqual({ status: 'disconnected', error: 'no answer' });
  });

  it('does not wait for a response on a lost connection', async () => {
    const connector = FakeConnector.up();
    const environment = new RemoteEnvironment('box', connector);
    await environment.waitUntilReady();
    const { client } = connector.last;
    client.alive = () => new Promise(() => {});
    const listening = client.listenerCount;
    const status = environment.status();
    client.become('recovering', refused('cut'));
    expect(await status).toEqual({ status: 'disconnected', error: "environment 'box' is recovering: cut" });
    expect(client.listenerCount).toBe(listening);
  });

  it('does not probe during a recovery', async () => {
    const connector = FakeConnector.up();
    const environment = new RemoteEnvironment('box', connector);
    await environment.waitUntilReady();
    connector.last.client.alive = () => Promise.reject(new Error('was asked'));
    connector.last.client.become('recovering');
    expect(await environment.status()).toEqual({
      status: 'disconnected',
      error: "environment 'box' is recovering",
    });
  });
});

describe('waitUntilReady', () => {
  it('waits for a recovery', async () => {
    const connector = FakeConnector.up();
    const environment = new RemoteEnvironment('box', connector);
    await environment.waitUntilReady();
    connector.last.client.become('recovering');
    let ready = false;
    const waiting = environment.waitUntilReady().then(() => {
      ready = true;
    });
    await settle();
    expect(ready).toBe(false);
    connector.last.client.become('connected');
    await waiting;
    expect(connector.attempts).toHaveLength(1);
  });

  it('connects again when the recovery fails', async () => {
    const connector = FakeConnector.up();
    const environment = new RemoteEnvironment('box', connector);
    await environment.waitUntilReady();
    connector.last.client.become('recovering');
    const waiting = environment.waitUntilReady();
    await settle();
    connector.last.client.become('failed', refused());
    await waiting;
    expect(connector.attempts).toHaveLength(2);
    expect(environment.readiness).toEqual({ ready: true });
  });

  it('has one deadline for all stages', async () => {
    const connector = FakeConnector.up();
    const environment = new RemoteEnvironment('box', connector);
    await environment.waitUntilReady();
    connector.last.client.become('recovering');
    const listening = connector.last.client.listenerCount;
    const waiting = environment.waitUntilReady({ timeoutMs: 20 });
    const failed = expect(waiting).rejects.toMatchObject({ kind: 'timeout' });
    await vi.advanceTimersByTimeAsync(20);
    await failed;
    expect(connector.last.client.listenerCount).toBe(listening);
  });

  it('fails immediately after a permanent failure', async () => {
    const connector = new FakeConnector();
    connector.respond = (attempt) => attempt.fail(misconfigured());
    const environment = new RemoteEnvironment('box', connector);
    await expect(environment.waitUntilReady()).rejects.toThrow('no such scheme');
    await expect(environment.waitUntilReady()).rejects.toThrow('no such scheme');
    expect(connector.attempts).toHaveLength(1);
  });
});

describe('restart', () => {
  it('reconnects a transport that does not reconnect itself', async () => {
    const connector = FakeConnector.up({ reconnects: false });
    const environment = new RemoteEnvironment('box', connector);
    await environment.waitUntilReady();
    connector.last.client.become('failed', refused('it exited'));
    await expect(environment.waitUntilReady()).rejects.toThrow('it exited');
    await environment.restart();
    expect(environment.readiness).toEqual({ ready: true });
  });

  it('can be aborted', async () => {
    const environment = new RemoteEnvironment('box', new FakeConnector());
    const restarting = environment.restart({ timeoutMs: 5 });
    const failed = expect(restarting).rejects.toMatchObject({ kind: 'timeout' });
    await vi.advanceTimersByTimeAsync(5);
    await failed;
    await expect(environment.restart({ signal: AbortSignal.abort() })).rejects.toMatchObject({
      kind: 'aborted',
    });
  });
});

describe('info', () => {
  it('comes from the handshake of the newest connection', async () => {
    const connector = FakeConnector.up();
    const environment = new RemoteEnvironment('box', connector);
    expect(await environment.info()).toEqual(info('/bin/bash'));
    connector.last.client.environmentInfo = info('/bin/sh');
    expect(await environment.info()).toEqual(info('/bin/sh'));
    expect(connector.last.client.fetchedOptions).toEqual([]);
  });

  it('is requested again with `fresh`', async () => {
    const connector = FakeConnector.up();
    const environment = new RemoteEnvironment('box', connector);
    expect(await environment.info({ fresh: true })).toEqual(info('/bin/zsh'));
    expect(connector.last.client.fetchedOptions).toEqual([{ timeoutMs: 30_000 }]);
  });

  it('is requested once per connection when the handshake has none', async () => {
    const connector = FakeConnector.up();
    const environment = new RemoteEnvironment('box', connector);
    await environment.waitUntilReady();
    const { client } = connector.last;
    client.environmentInfo = null;
    await environment.info();
    expect(await environment.info({ timeoutMs: 5 })).toEqual(info('/bin/zsh'));
    expect(client.fetchedOptions).toHaveLength(1);
    client.become('recovering');
    client.become('connected');
    await environment.info({ timeoutMs: 5 });
    expect(client.fetchedOptions).toEqual([{ timeoutMs: 30_000 }, { timeoutMs: 5 }]);
  });
});

describe('services', () => {
  it('call other methods with the remaining time', async () => {
    const connector = FakeConnector.up();
    const environment = new RemoteEnvironment('box', connector);
    expect(await environment.call('environment/info', null, { timeoutMs: 5 })).toEqual(info('/bin/zsh'));
    expect(connector.last.client.fetchedOptions).toEqual([{ timeoutMs: 5 }]);
    environment.retire();
    expect(connector.last.client.closed).toBe(true);
  });

  it('connect to start processes, and keep the connection for them', async () => {
    const connector = FakeConnector.up();
    const environment = new RemoteEnvironment('box', connector);
    await environment.backend.start(PARAMS, { timeoutMs: 100 });
    expect(connector.last.started).toEqual([{ params: PARAMS, options: { timeoutMs: 100 } }]);
    environment.retire();
    expect(connector.last.client.closed).toBe(false);
    connector.last.processes[0]!.end({ closed: true });
    expect(connector.last.client.closed).toBe(true);
  });

  it('fail with the reason of the failed connection', async () => {
    const connector = new FakeConnector();
    connector.respond = (attempt) => attempt.fail(refused());
    const environment = new RemoteEnvironment('box', connector);
    await expect(environment.backend.start(PARAMS)).rejects.toThrow('connection refused');
    await expect(environment.fileSystem.readFileText('file:///x')).rejects.toThrow('connection refused');
    await expect(async () => {
      for await (const _block of environment.fileSystem.readFileStream('file:///x'));
    }).rejects.toThrow('connection refused');
  });

  it('forward every file operation', async () => {
    const connector = FakeConnector.up();
    const environment = new RemoteEnvironment('box', connector);
    await environment.waitUntilReady();
    const calls: unknown[][] = [];
    connector.last.files = new Proxy({} as ExecutorFileSystem, {
      get:
        (_target, name) =>
        (...args: unknown[]) => {
          calls.push([name, ...args]);
          return Promise.resolve(`${String(name)} done`);
        },
    });
    const { fileSystem: files } = environment;
    const none: Uint8Array[] = [];
    const walk = { maxDepth: 1, maxDirectories: 1, maxEntries: 1, followDirectorySymlinks: false };
    expect(await files.canonicalize('a')).toBe('canonicalize done');
    await files.readFile('a', { followSymlinks: false });
    await files.readFileText('a', { sandbox: 1 });
    await files.writeFile('a', 'text', { followSymlinks: false });
    await files.createDirectory('a', { recursive: true });
    await files.getMetadata('a');
    await files.readDirectory('a');
    await files.walk('a', walk, { sandbox: 1 });
    await files.remove('a', { force: true });
    await files.copy('a', 'b', { recursive: true });
    await files.rename('a', 'b');
    await files.list(['a'], { recursive: true });
    await files.setAttributes('a', { mode: 1 });
    await files.createLink('a', 'b', { replace: true });
    await files.search('a', 'x', { timeoutMs: 7 });
    await files.replaceFile('a', none, { atomic: false });
    expect(calls).toEqual([
      ['canonicalize', 'a', {}],
      ['readFile', 'a', { followSymlinks: false }],
      ['readFileText', 'a', { sandbox: 1 }],
      ['writeFile', 'a', 'text', { followSymlinks: false }],
      ['createDirectory', 'a', { recursive: true }],
      ['getMetadata', 'a', {}],
      ['readDirectory', 'a', {}],
      ['walk', 'a', walk, { sandbox: 1 }],
      ['remove', 'a', { force: true }],
      ['copy', 'a', 'b', { recursive: true }],
      ['rename', 'a', 'b', {}],
      ['list', ['a'], { recursive: true }],
      ['setAttributes', 'a', { mode: 1 }, {}],
      ['createLink', 'a', 'b', { replace: true }],
      ['search', 'a', 'x', { timeoutMs: 7 }],
      ['replaceFile', 'a', none, { atomic: false }],
    ]);
  });

  it('give each block of a file the full time limit', async () => {
    const connector = new FakeConnector();
    const { fileSystem: files } = new RemoteEnvironment('box', connector);
    const options = { timeoutMs: 100 };
    const given: unknown[] = [];
    const reading = (async () => {
      for await (const _block of files.readFileStream('a', options));
    })();
    const writing = files.replaceFile('b', [], options);
    connector.last.files = {
      async *readFileStream(_path: string, its: unknown) {
        given.push(its);
        yield new Uint8Array();
      },
      async replaceFile(_path: string, _content: unknown, its: unknown) {
        given.push(its);
      },
    } as unknown as ExecutorFileSystem;
    await vi.advanceTimersByTimeAsync(90);
    connector.last.succeed();
    await Promise.all([reading, writing]);
    expect(given).toEqual([options, options]);
  });

  it('keep the connection until a stream ends or is left', async () => {
    const connector = FakeConnector.up();
    const environment = new RemoteEnvironment('box', connector);
    await environment.waitUntilReady();
    let closed = 0;
    connector.last.files = {
      async *readFileStream() {
        try {
          yield new Uint8Array([1]);
          yield new Uint8Array([2]);
        } finally {
          closed++;
        }
      },
    } as unknown as ExecutorFileSystem;
    for await (const _block of environment.fileSystem.readFileStream('file:///x')) {
      environment.retire();
      expect(connector.last.client.closed).toBe(false);
      break;
    }
    expect(closed).toBe(1);
    expect(connector.last.client.closed).toBe(true);
  });

  it('keep the connection until a watch is closed or left', async () => {
    for (const end of ['close', 'leave'] as const) {
      const connector = FakeConnector.up();
      const environment = new RemoteEnvironment('box', connector);
      await environment.waitUntilReady();
      const watch: FileWatch = {
        close: async () => {},
        [Symbol.asyncDispose]: async () => {},
        async *[Symbol.asyncIterator]() {
          yield { changes: [], overflow: false };
        },
      };
      connector.last.files = { watch: async () => watch } as unknown as ExecutorFileSystem;
      const held = await environment.fileSystem.watch('file:///x');
      environment.retire();
      expect(connector.last.client.closed).toBe(false);
      if (end === 'close') await held.close();
      else for await (const _changes of held) break;
      expect(connector.last.client.closed).toBe(true);
    }
  });

  it('release the connection when a watch fails', async () => {
    const connector = FakeConnector.up();
    const environment = new RemoteEnvironment('box', connector);
    await environment.waitUntilReady();
    connector.last.files = { watch: () => Promise.reject(refused('no')) } as unknown as ExecutorFileSystem;
    await expect(environment.fileSystem.watch('file:///x')).rejects.toThrow('no');
    environment.retire();
    expect(connector.last.client.closed).toBe(true);
  });
});

describe('provisioning', () => {
  it('that fails before the first use is reported by the status', async () => {
    const connector = new FakeConnector();
    const provisioning = new Provisioning('box');
    const environment = new RemoteEnvironment('box', connector, { provisioning });
    provisioning.report({ status: 'failed', error: 'no quota' });
    expect(await environment.status()).toEqual({ status: 'disconnected', error: 'no quota' });
    await expect(environment.waitUntilReady()).rejects.toThrow('no quota');
    expect(connector.attempts).toHaveLength(0);
  });
});
