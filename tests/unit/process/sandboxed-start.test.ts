import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  RELEASE_DEADLINE_MS,
  SANDBOXED_START_ATTEMPTS,
  START_BEFORE_TERMINATE_MS,
} from '../../../src/process/limits.ts';
import { ProcessManager } from '../../../src/process/process-manager.ts';
import { SpawnError, type SpawnSpec } from '../../../src/process/spawn/spawner.ts';
import { SandboxOutdatedError, type WrapInSandbox } from '../../../src/process/start-program.ts';
import { FakeChild, FakeSpawner } from './fake-child.ts';

const SPEC: SpawnSpec = {
  program: 'p',
  argv: ['p'],
  cwd: '/',
  env: {},
  io: { kind: 'pipe', stdin: 'closed' },
};
const SANDBOXED: SpawnSpec = { ...SPEC, program: 'wrapper' };
const NEVER = new Promise<never>(() => {});

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});

afterEach(() => {
  vi.useRealTimers();
});

function fixture(release: () => Promise<void> = async () => {}) {
  const spawner = new FakeSpawner();
  const manager = new ProcessManager(spawner, { maxProcesses: 2, closedRetentionMs: 1_000 });
  const events: string[] = [];
  const wrapInSandbox: WrapInSandbox = async () => ({
    spec: SANDBOXED,
    denialDetector: null,
    release: async () => {
      events.push('released');
      await release();
    },
  });
  const start = (how: WrapInSandbox = wrapInSandbox) =>
    manager.start({
      processId: 'p',
      spec: SPEC,
      retention: { headBytes: 0, tailBytes: 1_000, maxChunks: 10 },
      listener: {
        output: () => {},
        exited: (_seq, exitCode) => events.push(`exited ${exitCode}`),
        closed: () => events.push('closed'),
      },
      wrapInSandbox: how,
    });
  /** A running program. `events` records when its tree is killed. */
  const running = async () => {
    const child = new FakeChild();
    child.onKill = () => {
      events.push('killed');
      child.exit({ code: null, signal: 9 });
      child.endStreams();
    };
    const started = start();
    await settled();
    spawner.succeed(child);
    await started;
    return child;
  };
  return { spawner, manager, events, start, running };
}

const settled = () => new Promise(setImmediate);

describe('a sandboxed program', () => {
  test('is started through its wrapper and listed as requested', async () => {
    const { spawner, manager, running } = fixture();
    await running();
    expect(spawner.starts.map(({ spec }) => spec)).toEqual([SANDBOXED]);
    expect(manager.summary('p')?.program.argv).toEqual(SPEC.argv);
    await manager.close();
  });

  test.each([
    ['by itself', { code: 0, signal: null }, 'exited 0'],
    ['by a signal', { code: null, signal: 9 }, 'exited 137'],
  ])('that ends %s has no process left when its sandbox is released', async (_how, status, exitEvent) => {
    const { events, running } = fixture();
    (await running()).exit(status);
    await settled();
    expect(events).toEqual(['killed', 'released', exitEvent, 'closed']);
  });

  test('is reported as exited when the release fails', async () => {
    const { events, running } = fixture(() => Promise.reject(new Error('EBUSY')));
    (await running()).finish(2);
    await settled();
    expect(events.slice(-2)).toEqual(['exited 2', 'closed']);
  });

  test('is reported as exited when the release does not finish', async () => {
    const { events, running } = fixture(() => NEVER);
    (await running()).finish(2);
    await settled();
    expect(events).toEqual(['killed', 'released']);
    await vi.advanceTimersByTimeAsync(RELEASE_DEADLINE_MS);
    expect(events.slice(-2)).toEqual(['exited 2', 'closed']);
  });
});

describe('a start that fails', () => {
  test('in the sandbox spawns nothing and frees the id', async () => {
    const { spawner, manager, events, start } = fixture();
    const failing: WrapInSandbox = () => Promise.reject(new Error('no sandbox'));
    await expect(start(failing)).rejects.toThrow('no sandbox');
    expect([spawner.starts, manager.summary('p'), events]).toEqual([[], undefined, []]);
  });

  test('after the sandbox was built releases it once', async () => {
    const { spawner, manager, events, start } = fixture();
    const started = start();
    await settled();
    spawner.starts[0]!.reject(new SpawnError('EMFILE', 'no descriptors'));
    await expect(started).rejects.toThrow('no descriptors');
    expect([events, manager.summary('p')]).toEqual([['released'], undefined]);
  });

  test('reports the spawn error even if the release fails', async () => {
    const { spawner, start } = fixture(() => Promise.reject(new Error('EBUSY')));
    const started = start();
    await settled();
    spawner.starts[0]!.reject(new SpawnError('EMFILE', 'no descriptors'));
    await expect(started).rejects.toThrow('no descriptors');
  });

  test('does not wait for a release that hangs, and neither does the end of the session', async () => {
    const { spawner, manager, start } = fixture(() => NEVER);
    const started = start();
    const failed = expect(started).rejects.toThrow('no descriptors');
    await settled();
    spawner.starts[0]!.reject(new SpawnError('EMFILE', 'no descriptors'));
    await settled();
    const closed = manager.close();
    await vi.advanceTimersByTimeAsync(RELEASE_DEADLINE_MS);
    await Promise.all([failed, closed]);
  });
});

describe('a start that is cancelled while its sandbox is built', () => {
  /** Waits until it is cancelled. */
  const patient: WrapInSandbox = (_spec, signal) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(new Error('given up')), { once: true });
    });

  test('by a terminate spawns nothing', async () => {
    const { spawner, manager, start } = fixture();
    const started = expect(start(patient)).rejects.toThrow('given up');
    const terminated = manager.terminate('p', { type: 'force' });
    await vi.advanceTimersByTimeAsync(START_BEFORE_TERMINATE_MS);
    expect(await terminated).toBe(true);
    await started;
    expect(spawner.starts).toEqual([]);
  });

  test('by the end of the session spawns nothing', async () => {
    const { spawner, manager, start } = fixture();
    const started = expect(start(patient)).rejects.toThrow('given up');
    await manager.close();
    await started;
    expect(spawner.starts).toEqual([]);
  });

  test('during the spawn kills the child before it releases the sandbox', async () => {
    const { spawner, manager, events, start } = fixture();
    const started = expect(start()).rejects.toThrow('process p start was cancelled');
    await settled();
    const closed = manager.close();
    const child = new FakeChild();
    child.onKill = () => events.push('killed');
    spawner.succeed(child);
    await Promise.all([started, closed]);
    expect(events).toEqual(['killed', 'released']);
    expect(child.released).toBe(1);
  });
});

describe('a child that does not enter its sandbox', () => {
  /** The results of `entered`, one per attempt. The last one is repeated. */
  function reluctant(entered: readonly (boolean | Error)[]) {
    const world = fixture();
    let made = 0;
    const wrapInSandbox: WrapInSandbox = async () => {
      const name = ++made;
      return {
        spec: { ...SANDBOXED, argv: [String(name)] },
        denialDetector: null,
        entered: async () => {
          const outcome = entered[name - 1] ?? entered.at(-1)!;
          if (outcome instanceof Error) throw outcome;
          return outcome;
        },
        release: async () => void world.events.push(`released ${name}`),
      };
    };
    const children: FakeChild[] = [];
    const begin = async (count: number) => {
      const started = world.start(wrapInSandbox);
      for (let index = 0; index < count; index++) {
        await settled();
        const child = new FakeChild();
        children.push(child);
        world.spawner.starts[index]!.resolve(child);
      }
      await started;
    };
    return { ...world, children, begin };
  }

  test('is killed and replaced, and only its replacement is reported', async () => {
    const { events, children, begin, spawner } = reluctant([false, false, true]);
    await begin(3);
    expect(children.map(({ killed, released }) => [killed, released])).toEqual([
      [1, 1],
      [1, 1],
      [0, 0],
    ]);
    expect(spawner.starts.map(({ spec }) => spec.argv[0])).toEqual(['1', '2', '3']);
    children[2]!.finish(0);
    await settled();
    expect(events).toEqual(['released 1', 'released 2', 'released 3', 'exited 0', 'closed']);
  });

  test('is killed without a report when the sandbox is outdated', async () => {
    const outdated = new SandboxOutdatedError(new Error('it keeps changing'));
    const lucky = reluctant([outdated, true]);
    await lucky.begin(2);
    expect(lucky.children.map(({ killed }) => killed)).toEqual([1, 0]);
    const unlucky = reluctant([outdated]);
    await expect(unlucky.begin(SANDBOXED_START_ATTEMPTS)).rejects.toThrow('it keeps changing');
    expect(unlucky.children.map(({ killed, released }) => [killed, released])).toEqual(
      Array.from({ length: SANDBOXED_START_ATTEMPTS }, () => [1, 1]),
    );
    expect(unlucky.events).toHaveLength(SANDBOXED_START_ATTEMPTS);
    expect(await unlucky.manager.find('p')).toBeUndefined();
  });

  test('is reported after the last attempt', async () => {
    const { events, children, begin, spawner } = reluctant([false]);
    await begin(SANDBOXED_START_ATTEMPTS);
    children.at(-1)!.finish(127);
    await settled();
    expect(spawner.starts).toHaveLength(SANDBOXED_START_ATTEMPTS);
    expect(events.slice(-2)).toEqual(['exited 127', 'closed']);
  });

  test('is killed without another attempt when the start is cancelled', async () => {
    const { spawner, manager, events, start } = fixture();
    const child = new FakeChild();
    const started = start(async () => ({
      spec: SANDBOXED,
      denialDetector: null,
      entered: () => NEVER,
      release: async () => void events.push('released'),
    }));
    const given = expect(started).rejects.toThrow('start was cancelled');
    await settled();
    spawner.succeed(child);
    const terminated = manager.terminate('p', { type: 'force' });
    await vi.advanceTimersByTimeAsync(START_BEFORE_TERMINATE_MS);
    expect(await terminated).toBe(true);
    await given;
    expect([spawner.starts.length, child.killed, child.released, events]).toEqual([1, 1, 1, ['released']]);
  });
});
