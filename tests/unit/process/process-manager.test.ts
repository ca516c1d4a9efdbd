import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { START_BEFORE_TERMINATE_MS } from '../../../src/process/limits.ts';
import type { ManagedProcess } from '../../../src/process/managed-process.ts';
import {
  ProcessManager,
  type ProcessManagerOptions,
  type ProcessObserver,
} from '../../../src/process/process-manager.ts';
import { SpawnError, type SpawnSpec } from '../../../src/process/spawn/spawner.ts';
import { retainedBytes } from '../../support/retained-memory.ts';
import { FakeChild, FakeSpawner } from './fake-child.ts';

const RETENTION_MS = 30_000;
const FORCE = { type: 'force' } as const;
const SPEC: SpawnSpec = {
  program: 'p',
  argv: ['p'],
  cwd: '/',
  env: {},
  io: { kind: 'pipe', stdin: 'closed' },
};

const LISTED = { argv: ['p'], argvTruncated: false, cwd: '/', tty: false };

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});

afterEach(() => {
  vi.useRealTimers();
});

function createManager(options: Partial<ProcessManagerOptions> = {}) {
  const spawner = new FakeSpawner();
  const manager = new ProcessManager(spawner, {
    maxProcesses: 3,
    closedRetentionMs: RETENTION_MS,
    ...options,
  });
  const events: string[] = [];
  const ids = new Set<string>();
  const list = () => [...ids].map((id) => manager.summary(id)).filter((summary) => summary !== undefined);
  /** Requests a process; the start is in progress when this returns. */
  const start = (processId: string, spec = SPEC, observer?: ProcessObserver) => {
    ids.add(processId);
    return manager.start({
      processId,
      spec,
      ...(observer && { observer }),
      retention: { headBytes: 0, tailBytes: 1_000, maxChunks: 10 },
      listener: {
        output: (seq, _stream, bytes) => events.push(`${processId} ${seq} ${bytes}`),
        exited: (seq) => events.push(`${processId} ${seq} exited`),
        closed: (seq) => events.push(`${processId} ${seq} closed`),
      },
    });
  };
  const running = async (processId: string, child = new FakeChild()) => {
    const started = start(processId);
    spawner.succeed(child);
    await started;
    return child;
  };
  return { spawner, manager, events, start, running, list };
}

const settled = () => new Promise(setImmediate);
const refused = (code: string) => expect.objectContaining({ name: 'ProcessError', code });

describe('ids', () => {
  test('reserves an id immediately and rejects a duplicate', async () => {
    const { spawner, start } = createManager();
    const first = start('p');
    await expect(start('p')).rejects.toThrow('process p already exists');
    spawner.succeed();
    await first;
    await expect(start('p')).rejects.toThrow(refused('duplicateProcess'));
    expect(spawner.starts).toHaveLength(1);
  });

  test.each(['', '__proto__', 'constructor', '\u0000', 'x'.repeat(65_536)])(
    'accepts %j as an id',
    async (id) => {
      const { manager, running } = createManager();
      expect(await manager.find(id)).toBeUndefined();
      await running(id);
      expect(await manager.get(id)).toBe(await manager.find(id));
    },
  );

  test('frees the id and reports the reason when a start fails', async () => {
    const { spawner, manager, start, running } = createManager();
    const failing = start('p');
    const found = manager.find('p');
    spawner.starts[0]!.reject(new SpawnError('ENOENT', 'no such program'));
    await expect(failing).rejects.toThrow('no such program');
    expect(await found).toBeUndefined();
    await expect(manager.get('p')).rejects.toThrow('unknown process id p');
    await running('p');
  });

  test('keeps the id of a closed process until its retention ends, which starts with the close', async () => {
    const { manager, start, running } = createManager();
    const child = await running('p');
    child.exit(0);
    vi.advanceTimersByTime(RETENTION_MS * 2);
    expect((await manager.get('p')).exitCode).toBe(0);
    child.endStreams();
    vi.advanceTimersByTime(RETENTION_MS - 1);
    await expect(start('p')).rejects.toThrow('already exists');
    vi.advanceTimersByTime(1);
    expect(await manager.find('p')).toBeUndefined();
    await running('p');
    expect((await manager.get('p')).nextSeq).toBe(1);
  });

  test('does not evict the next process with the same id', async () => {
    const { manager, start, spawner } = createManager();
    const first = start('p');
    const cancelled = manager.terminate('p', FORCE);
    vi.advanceTimersByTime(START_BEFORE_TERMINATE_MS);
    await cancelled;
    const second = start('p');
    spawner.starts[0]!.resolve(new FakeChild());
    await expect(first).rejects.toThrow(refused('startCancelled'));
    spawner.succeed();
    await second;
    expect((await manager.get('p')).closed).toBe(false);
  });

  test('says that a process is unknown when another request has removed it', async () => {
    const { manager, running } = createManager();
    (await running('p')).finish();
    const outcomes = await Promise.allSettled([manager.forget('p'), manager.forget('p')]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    expect(outcomes[1]).toMatchObject({ reason: refused('unknownProcess') });
  });

  test('limits the number of processes; evicts closed ones, the oldest first', async () => {
    const { start, running, list } = createManager({ maxProcesses: 2 });
    const a = await running('a');
    const b = await running('b');
    await expect(start('c')).rejects.toThrow(refused('tooManyProcesses'));
    b.finish();
    a.finish();
    await running('c');
    expect(list().map(({ processId }) => processId)).toEqual(['a', 'c']);
  });
});

describe('a start in progress', () => {
  test('is awaited by find', async () => {
    const { spawner, manager, start } = createManager();
    const started = start('p');
    const found = [manager.find('p'), manager.get('p')];
    spawner.succeed();
    await started;
    const [first, second] = await Promise.all(found);
    expect(first).toBeDefined();
    expect(second).toBe(first);
  });

  test('is listed as starting', async () => {
    const { start, running, list } = createManager();
    (await running('closed')).finish(3);
    (await running('exited')).exit(4);
    void start('new').catch(() => undefined);
    expect(list()).toMatchObject([
      { processId: 'closed', state: 'closed', exitCode: 3, nextSeq: 3, program: LISTED },
      { processId: 'exited', state: 'exited', exitCode: 4, nextSeq: 2 },
      { processId: 'new', state: 'starting', exitCode: null, nextSeq: 1 },
    ]);
  });

  test.each<[string, string[], string[], boolean]>([
    ['ordinary arguments', ['p', '', 'b'], ['p', '', 'b'], false],
    ['the longest', ['p', 'x'.repeat(4_094)], ['p', 'x'.repeat(4_094)], false],
    ['one more character', ['p', 'x'.repeat(4_095)], ['p', 'x'.repeat(4_094)], true],
    ['one more argument', ['p', 'x'.repeat(4_094), ''], ['p', 'x'.repeat(4_094)], true],
    ['many empty arguments', Array(5_000).fill(''), Array(4_096).fill(''), true],
    ['a cut within a character', ['x'.repeat(4_095), '😀'], ['x'.repeat(4_095)], true],
    ['a cut within a character of one argument', [`${'x'.repeat(4_095)}😀`], ['x'.repeat(4_095)], true],
  ])('is listed with 4,096 characters of its arguments: %s', async (_name, argv, shown, truncated) => {
    const { start, list } = createManager();
    void start('p', { ...SPEC, argv }).catch(() => undefined);
    const [listed] = list();
    expect(listed?.program).toMatchObject({ argv: shown, argvTruncated: truncated });
  });

  test('keeps only the listed part of a long argument in memory', () => {
    const kept = retainedBytes(() =>
      Array.from({ length: 20 }, (_, index) => {
        const { start, list } = createManager();
        void start('p', { ...SPEC, argv: ['p', `${index}`.padStart(1_000_000, 'x')] }).catch(() => undefined);
        return list();
      }),
    );
    expect(kept).toBeLessThan(5_000_000);
  });

  test('is terminated as a running process if it finishes in time', async () => {
    const { spawner, manager, start } = createManager();
    const started = start('p');
    const terminated = manager.terminate('p', FORCE);
    const child = spawner.succeed();
    await started;
    expect(await terminated).toBe(true);
    expect(child.killed).toBe(1);
    expect(vi.getTimerCount()).toBe(1); // The retention of the closed process.
  });

  test('has nothing to terminate if it fails in time', async () => {
    const { spawner, manager, start } = createManager();
    const started = start('p');
    const terminated = manager.terminate('p', FORCE);
    spawner.starts[0]!.reject(new SpawnError('ENOENT', 'no'));
    await expect(started).rejects.toThrow('no');
    expect(await terminated).toBe(false);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('is cancelled if it takes too long, and its id is free immediately', async () => {
    const { spawner, manager, start, events, list } = createManager();
    const started = start('p');
    const found = manager.find('p');
    const terminated = manager.terminate('p', FORCE);
    vi.advanceTimersByTime(START_BEFORE_TERMINATE_MS - 1);
    await settled();
    expect(spawner.starts[0]!.signal?.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(await terminated).toBe(true);
    expect(spawner.starts[0]!.signal?.aborted).toBe(true);
    expect(list()).toEqual([]);
    const child = spawner.succeed(new FakeChild({ stdin: true }));
    await expect(started).rejects.toThrow('process p start was cancelled');
    expect(await found).toBeUndefined();
    expect([child.killed, child.released, child.stdin?.destroyed, child.stdout.destroyed]).toEqual([
      1,
      1,
      true,
      true,
    ]);
    expect(events).toEqual([]);
  });

  test('reports the cancellation, whatever error the spawner returns', async () => {
    const { spawner, manager, start } = createManager();
    const started = start('p');
    const terminated = manager.terminate('p', FORCE);
    vi.advanceTimersByTime(START_BEFORE_TERMINATE_MS);
    await terminated;
    spawner.starts[0]!.reject(new SpawnError('ECANCELED', 'the spawner gave up'));
    await expect(started).rejects.toThrow(refused('startCancelled'));
  });
});

test.each(['running', 'starting'])(
  'carries out requests about a %s process in their order',
  async (state) => {
    const { spawner, manager, start } = createManager();
    const started = start('p');
    const succeed = () => spawner.succeed(new FakeChild({ stdin: true }));
    if (state === 'running') {
      succeed();
      await started;
    }
    const write = (process: ManagedProcess | undefined) => process?.write(Buffer.from('x'), null, () => {});
    const outcomes = Promise.allSettled([
      manager.find('p').then(write),
      manager.get('p').then(write),
      manager.terminate('p', FORCE),
      manager.find('p').then(write),
      manager.get('p').then(write),
    ]);
    if (state === 'starting') succeed();
    await started;
    expect(await outcomes).toEqual([
      { status: 'fulfilled', value: 'accepted' },
      { status: 'fulfilled', value: 'accepted' },
      { status: 'fulfilled', value: true },
      { status: 'rejected', reason: refused('stdinGone') },
      { status: 'rejected', reason: refused('stdinGone') },
    ]);
  },
);

test('ignores terminating a missing or closed process', async () => {
  const { manager, running } = createManager();
  (await running('p')).finish();
  expect(await manager.terminate('p', FORCE)).toBe(false);
  expect(await manager.terminate('q', FORCE)).toBe(false);
});

test('ends the grace period of a forgotten process', async () => {
  const { manager, running } = createManager();
  const child = await running('p');
  await manager.terminate('p', { type: 'graceful', timeoutMs: RETENTION_MS * 1_000 });
  child.finish(0);
  vi.advanceTimersByTime(RETENTION_MS);
  await settled();
  expect(child.killed).toBe(1);
  expect(vi.getTimerCount()).toBe(0);
});

describe('an observer', () => {
  const observer = (paused: boolean) => {
    const calls: string[] = [];
    const observed: ProcessObserver = {
      paused,
      reserved: () => calls.push('reserved'),
      started: ({ nextSeq }) => calls.push(`started before ${nextSeq}`),
      removed: () => calls.push('removed'),
    };
    return { calls, observed };
  };

  test('decides whether a process is read from the beginning', async () => {
    const { spawner, manager, start, events } = createManager();
    const { calls, observed } = observer(true);
    const started = start('p', SPEC, observed);
    expect(calls).toEqual(['reserved']);
    const child = spawner.succeed();
    await started;
    child.stdout.write('1');
    expect([calls, events]).toEqual([['reserved', 'started before 1'], []]);
    (await manager.get('p')).setPaused(false);
    expect(events).toEqual(['p 1 1']);
  });

  test.each(['fails', 'is cancelled', 'is forgotten', 'is closed'])(
    'learns once that a process %s',
    async (end) => {
      const { spawner, manager, start } = createManager();
      const { calls, observed } = observer(false);
      const started = start('p', SPEC, observed).catch(() => undefined);
      if (end === 'fails') spawner.starts[0]!.reject(new SpawnError('ENOENT', 'no'));
      if (end === 'is cancelled') {
        const terminated = manager.terminate('p', FORCE);
        vi.advanceTimersByTime(START_BEFORE_TERMINATE_MS);
        await terminated;
      }
      if (end === 'fails' || end === 'is cancelled') {
        expect(calls).not.toContain('started before 1');
      } else {
        const child = spawner.succeed();
        await started;
        if (end === 'is forgotten') {
          child.finish(0);
          vi.advanceTimersByTime(RETENTION_MS);
        }
      }
      if (end === 'fails') await started;
      if (end === 'is closed') await manager.close();
      expect(calls.filter((call) => call === 'removed')).toHaveLength(1);
      await manager.close();
      expect(calls.filter((call) => call === 'removed')).toHaveLength(1);
    },
  );
});

test('signals running processes, cancels starts and rejects new ones', async () => {
  const { manager, spawner, start, running } = createManager();
  const [first, second] = [await running('a'), await running('b')];
  second.exit(0);
  const starting = start('c');
  manager.signalAll(15);
  expect([first.signals, second.signals]).toEqual([[15], []]);
  spawner.succeed();
  await expect(starting).rejects.toThrow(refused('startCancelled'));
  await expect(start('d')).rejects.toThrow(refused('shuttingDown'));
});

test('allClosed waits for the last process, or until the signal aborts', async () => {
  const { manager, running } = createManager();
  const child = await running('p');
  (await running('q')).finish();
  const stop = new AbortController();
  const [patient, impatient] = [
    manager.allClosed(new AbortController().signal),
    manager.allClosed(stop.signal),
  ];
  stop.abort();
  await impatient;
  child.exit(0);
  const early = await Promise.race([patient.then(() => true), settled().then(() => false)]);
  expect(early).toBe(false);
  child.endStreams();
  await patient;
});

describe('closing', () => {
  test('kills running processes, cancels starts, forgets closed processes and rejects new ones', async () => {
    const { spawner, manager, start, running, list } = createManager();
    const alive = await running('alive');
    const done = await running('done');
    done.finish();
    (await manager.get('alive')).setPaused(true);
    alive.stdout.write('unread');
    const starting = start('starting');
    const outcome = expect(starting).rejects.toThrow(refused('startCancelled'));
    const closed = manager.close();
    await expect(start('late')).rejects.toThrow(refused('shuttingDown'));
    const unborn = spawner.succeed();
    await closed;
    await outcome;
    expect([alive.killed, done.killed, unborn.killed]).toEqual([1, 0, 1]);
    expect(list()).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
    await manager.close();
  });

  test('many processes emits no warning', async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => warnings.push(warning);
    process.on('warning', onWarning);
    const { manager, running } = createManager({ maxProcesses: 30 });
    for (let index = 0; index < 30; index++) {
      const child = await running(`p${index}`);
      child.onKill = () => setImmediate(() => child.finish(9));
    }
    await manager.close();
    await settled();
    process.off('warning', onWarning);
    expect(warnings).toEqual([]);
  });
});
