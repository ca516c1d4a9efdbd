import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { FileThreads } from '../../../src/files/file-threads.ts';
import { MAX_BROKEN_FILE_THREADS, MAX_FILE_THREADS } from '../../../src/files/limits.ts';
import { nativePathOfText } from '../../../src/files/native-path.ts';
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

/** Threads that run a program of the test's. `parentPort` and `job` are what it knows. */
function threadsThat(does: string, idleMs?: number): FileThreads {
  const program = `const { parentPort } = require('node:worker_threads');
    parentPort.on('message', (job) => { ${does} });
    parentPort.postMessage({ kind: 'ready' });`;
  const start = () => {
    const worker = new Worker(program, { eval: true });
    started.push(worker);
    return worker;
  };
  return new FileThreads(start, idleMs);
}

const ANSWERS = "parentPort.postMessage({ kind: 'done', answer: { fd: null, size: 2, head: 'ok' } });";
const HANGS = 'for (;;);';
const JOB = { kind: 'read', path: nativePathOfText('/anything') } as const;

/** The answer of the first thread that is ready. */
function answered(threads: FileThreads): Promise<unknown> {
  threads.prepare();
  return waitFor('a thread', () => threads.run(JOB));
}

/** Has all threads hang, and resolves when they do. */
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

test('a job is done by a thread once one is ready', async () => {
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

test('while all threads hang, jobs are not taken and no further threads are made', async () => {
  const threads = threadsThat(HANGS);
  await occupy(threads);
  for (let attempt = 0; attempt < 10; attempt++) {
    threads.prepare();
    expect(await threads.run(JOB)).toBeNull();
  }
  expect(threads.count).toBe(MAX_FILE_THREADS);
  expect(started).toHaveLength(MAX_FILE_THREADS);
});

test('a job that is no longer wanted ends its thread', async () => {
  const threads = threadsThat(`if (job.kind === 'walk') ${HANGS} else ${ANSWERS}`);
  await answered(threads);
  const unwanted = new AbortController();
  const options = {} as never;
  const walk = threads.run({ kind: 'walk', path: JOB.path, options }, unwanted.signal);
  unwanted.abort(new Error('gone'));
  await expect(walk).rejects.toThrow('gone');
  expect(await threads.run(JOB)).toBeNull();
  await once(started[0]!, 'exit');
  expect(await answered(threads)).toEqual({ fd: null, size: 2, head: 'ok' });
  await expect(threads.run(JOB, AbortSignal.abort(new Error('gone before')))).rejects.toThrow('gone before');
});

test('the job of a thread that breaks is given back, and after some of them no more are made', async () => {
  const threads = threadsThat("throw new Error('broken');");
  for (let broken = 0; broken < MAX_BROKEN_FILE_THREADS; broken++) {
    threads.prepare();
    await waitFor('the end of a thread', async () => {
      expect(await threads.run(JOB)).toBeNull();
      return threads.count === 0;
    });
  }
  threads.prepare();
  expect(threads.count).toBe(0);
});

test('threads that cannot be started are done without', async () => {
  const threads = new FileThreads(() => {
    throw new Error('no more threads');
  });
  for (let attempt = 0; attempt < MAX_BROKEN_FILE_THREADS + 2; attempt++) threads.prepare();
  expect(threads.count).toBe(0);
  expect(await threads.run(JOB)).toBeNull();
});

test('a thread that has nothing to do for a while is ended, and does not count as broken', async () => {
  const threads = threadsThat(ANSWERS, 1);
  for (let ended = 0; ended <= MAX_BROKEN_FILE_THREADS; ended++) {
    threads.prepare();
    expect(threads.count).toBe(1);
    await waitFor('the end of the thread', () => threads.count === 0);
  }
});

test('a thread keeps no process alive', async () => {
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
