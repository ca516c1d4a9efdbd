import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { FileThreads } from '../../../src/files/file-threads.ts';
import {
  MAX_CRASHED_FILE_THREADS,
  MAX_FILE_THREADS,
  WRITE_WAIT_MS,
  WRITE_WAIT_PAUSE_MS,
} from '../../../src/files/limits.ts';
import { nativePathOfText } from '../../../src/files/native-path.ts';
import type { WalkJob } from '../../../src/files/thread/thread-messages.ts';
import { waitFor } from '../../support/wait-for.ts';

let folder: string;
let started: Worker[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'threads-'));
  writeFileSync(join(folder, 'file'), 'content');
});

afterEach(async () => {
  await Promise.all(started.map((worker) => worker.terminate()));
  started = [];
  rmSync(folder, { recursive: true });
});

/** Threads that run the code of the test for a message and for a write. The code sees `parentPort` and `job`. */
function threadsRunning(does: string, idleMs?: number, writes = ''): FileThreads {
  const program = `const { parentPort, workerData } = require('node:worker_threads');
    const task = new Int32Array(workerData, 0, 1);
    parentPort.on('message', (job) => { ${does} });
    setInterval(() => { if (Atomics.exchange(task, 0, 0) === 2) { ${writes} } }, 1);
    parentPort.postMessage({ kind: 'ready' });`;
  const start = (slot: SharedArrayBuffer) => {
    const worker = new Worker(program, { eval: true, workerData: slot });
    started.push(worker);
    return worker;
  };
  return new FileThreads(start, idleMs);
}

const ANSWERS = "parentPort.postMessage({ kind: 'done', answer: { fd: null, size: 2, head: 'ok' } });";
const HANGS = 'for (;;);';
const JOB = { kind: 'read', path: nativePathOfText('/anything') } as const;

/** The result of the first thread that is ready. */
function answered(threads: FileThreads): Promise<unknown> {
  threads.prepare();
  return waitFor('a thread', () => threads.run(JOB));
}

/** Makes all threads hang, and resolves when they do. */
async function occupy(threads: FileThreads): Promise<void> {
  let taken = 0;
  threads.prepare();
  await waitFor('all threads to hang', async () => {
    const outcome = await Promise.race([
      threads.run(JOB),
      new Promise((resolve) => setImmediate(resolve, 'hangs')),
    ]);
    if (outcome === 'hangs') taken++;
    return taken === MAX_FILE_THREADS;
  });
}

test('runs a job once a thread is ready', async () => {
  const threads = new FileThreads();
  const job = { kind: 'read', path: nativePathOfText(join(folder, 'file')) } as const;
  expect(await threads.run(job)).toBeNull();
  expect(threads.count).toBe(0);
  threads.prepare();
  expect(await waitFor('the thread', () => threads.run(job))).toEqual({ fd: null, size: 7, head: 'content' });
  const missing = { kind: 'read', path: nativePathOfText(join(folder, 'missing')) } as const;
  await expect(threads.run(missing)).rejects.toMatchObject({ name: 'FileError', kind: 'notFound', errno: 2 });
  expect(threads.count).toBe(1);
});

test('rejects jobs and starts no further threads while all threads hang', async () => {
  const threads = threadsRunning(HANGS);
  await occupy(threads);
  for (let attempt = 0; attempt < 10; attempt++) {
    threads.prepare();
    expect(await threads.run(JOB)).toBeNull();
  }
  expect(threads.count).toBe(MAX_FILE_THREADS);
  expect(started).toHaveLength(MAX_FILE_THREADS);
});

test('terminates the thread of an aborted job', async () => {
  const threads = threadsRunning(`if (job.kind === 'walk') ${HANGS} else ${ANSWERS}`);
  await answered(threads);
  const unwanted = new AbortController();
  const walkJob = { kind: 'walk', start: { path: JOB.path }, options: {}, reach: {} } as unknown as WalkJob;
  const walk = threads.run(walkJob, unwanted.signal);
  unwanted.abort(new Error('gone'));
  await expect(walk).rejects.toThrow('gone');
  expect(await threads.run(JOB)).toBeNull();
  await once(started[0]!, 'exit');
  expect(await answered(threads)).toEqual({ fd: null, size: 2, head: 'ok' });
  await expect(threads.run(JOB, AbortSignal.abort(new Error('gone before')))).rejects.toThrow('gone before');
});

test('returns the job of a crashed thread, and stops starting threads after several crashes', async () => {
  const threads = threadsRunning("throw new Error('broken');");
  for (let broken = 0; broken < MAX_CRASHED_FILE_THREADS; broken++) {
    threads.prepare();
    await waitFor('the end of a thread', async () => {
      expect(await threads.run(JOB)).toBeNull();
      return threads.count === 0;
    });
  }
  threads.prepare();
  expect(threads.count).toBe(0);
});

test('works without threads that cannot be started', async () => {
  const threads = new FileThreads(() => {
    throw new Error('no more threads');
  });
  for (let attempt = 0; attempt < MAX_CRASHED_FILE_THREADS + 2; attempt++) threads.prepare();
  expect(threads.count).toBe(0);
  expect(await threads.run(JOB)).toBeNull();
});

test('terminates an idle thread and does not count it as crashed', async () => {
  const threads = threadsRunning(ANSWERS, 1);
  for (let ended = 0; ended <= MAX_CRASHED_FILE_THREADS; ended++) {
    threads.prepare();
    expect(threads.count).toBe(1);
    await waitFor('the end of the thread', () => threads.count === 0);
  }
});

/** A write to a file of the test. */
function writeOf(text: string, name = 'file') {
  return { path: nativePathOfText(join(folder, name)), bytes: Buffer.from(text) };
}

/** How often this thread blocks during `act`. */
function waits(act: () => void): number {
  const wait = vi.spyOn(Atomics, 'wait');
  try {
    act();
    return wait.mock.calls.filter(([, , , ms]) => ms === WRITE_WAIT_MS).length;
  } finally {
    wait.mockRestore();
  }
}

test('completes a write within the wait limit once per turn, or reports its outcome later', async () => {
  const threads = new FileThreads();
  expect(threads.write(writeOf('x'))).toBeNull();
  threads.prepare();
  let count = 0;
  await waitFor('a write that finishes in time', async () => {
    const outcome = threads.write(writeOf(`text ${++count}`));
    if (outcome !== null) expect(await outcome).toBe('written');
    if (outcome !== 'written') return false;
    expect(readFileSync(join(folder, 'file'), 'utf8')).toBe(`text ${count}`);
    const inTheSameTurn = threads.write(writeOf('again'));
    expect(inTheSameTurn).toBeInstanceOf(Promise);
    expect(await inTheSameTurn).toBe('written');
    return true;
  });
  await expect(threads.write(writeOf('x', 'missing/file'))).rejects.toMatchObject({ kind: 'notFound' });
  expect(threads.write(writeOf('x', 'x'.repeat(5_000)))).toBeNull();
  expect(threads.write(writeOf('x'.repeat(200_000)))).toBeNull();
  expect(threads.free).toBe(1);
});

const WRITES = "parentPort.postMessage({ kind: 'done', answer: 'written' });";

test('does not block for writes for a while after a wait that timed out', async () => {
  const threads = threadsRunning(ANSWERS, undefined, WRITES);
  await answered(threads);
  let outcome: unknown;
  const write = () => {
    outcome = threads.write(writeOf('x'));
  };
  const written = async () => {
    expect(await outcome).toBe('written');
    // Blocks at most once per turn, so wait for the next one.
    await new Promise(setImmediate);
  };
  const now = performance.now();
  const clock = vi.spyOn(performance, 'now').mockReturnValue(now);
  try {
    expect(waits(write)).toBe(1);
    await written();
    expect(waits(write)).toBe(0);
    await written();
    clock.mockReturnValue(now + WRITE_WAIT_PAUSE_MS);
    expect(waits(write)).toBe(1);
    await written();
  } finally {
    clock.mockRestore();
  }
});

test('does not block for a write while a thread has another job', async () => {
  const threads = threadsRunning(`if (job.path !== 'hang') { ${ANSWERS} }`, undefined, WRITES);
  await answered(threads);
  const hanging = threads.run({ kind: 'read', path: nativePathOfText('hang') });
  await answered(threads);
  let outcome: unknown;
  expect(
    waits(() => {
      outcome = threads.write(writeOf('x'));
    }),
  ).toBe(0);
  expect(await outcome).toBe('written');
  await Promise.all(started.map((worker) => worker.terminate()));
  expect(await hanging).toBeNull();
});

test('returns the write of a crashed thread', async () => {
  const threads = threadsRunning(ANSWERS, undefined, "throw new Error('broken');");
  await answered(threads);
  expect(await threads.write(writeOf('x'))).toBeNull();
  expect(threads.count).toBe(0);
});

test('terminates a sleeping thread', async () => {
  const threads = new FileThreads(undefined, 1);
  threads.prepare();
  await waitFor('the end of the thread', () => threads.count === 0);
});

test('does not keep the process alive', async () => {
  const modules = new URL('../../../dist/files/file-threads.js', import.meta.url).href;
  const program = `const { FileThreads } = await import(${JSON.stringify(modules)});
    const threads = new FileThreads();
    threads.prepare();
    const job = { kind: 'read', path: ${JSON.stringify(join(folder, 'file'))} };
    const waiting = setInterval(async () => {
      if ((await threads.run(job)) === null) return;
      console.log('done', threads.count);
      clearInterval(waiting);
    }, 20);`;
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program], { timeout: 9_000 });
  expect(stdout).toMatch(/^done 1\n/);
});
