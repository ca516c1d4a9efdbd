import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { CachedCalls } from '../../../src/native/cached-calls.ts';
import { lazyCachedCalls } from '../../../src/native/lazy-cached-calls.ts';
import { waitFor } from '../../support/wait-for.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'lazy-cached-calls-'));
  writeFileSync(join(folder, 'file'), 'content');
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

const CALLS = {} as CachedCalls;

test('loads the calls when they are first asked for', async () => {
  const load = vi.fn(async () => CALLS);
  const cachedCalls = lazyCachedCalls(load);
  expect(load).not.toHaveBeenCalled();
  expect(cachedCalls()).toBeNull();
  await waitFor('the calls', () => cachedCalls() === CALLS);
  expect(load).toHaveBeenCalledOnce();
});

test('returns null when the calls cannot be loaded, and does not retry', async () => {
  const load = vi.fn(() => Promise.reject(new Error('not available')));
  const cachedCalls = lazyCachedCalls(load);
  expect(cachedCalls()).toBeNull();
  await new Promise(setImmediate);
  expect(cachedCalls()).toBeNull();
  expect(load).toHaveBeenCalledOnce();
});

test('in a worker thread files are served without descriptors that Node does not know', async () => {
  const built = new URL('../../../dist/environment/index.js', import.meta.url);
  const file = pathToFileURL(join(folder, 'file'));
  const program = `
    const { parentPort } = require('node:worker_threads');
    const warnings = [];
    process.on('warning', ({ message }) => warnings.push(message));
    import(${JSON.stringify(built.href)}).then(async ({ LocalEnvironment }) => {
      const environment = new LocalEnvironment();
      const change = async (_, index) => {
        await environment.fileSystem.writeFile(${JSON.stringify(file.href)} + index, 'x'.repeat(300 * index));
        await environment.fileSystem.readFile(${JSON.stringify(file.href)} + index);
      };
      for (let round = 0; round < 8; round++) await Promise.all(Array.from({ length: 150 }, change));
      await environment.dispose();
      setImmediate(() => parentPort.postMessage(warnings));
    });`;
  const worker = new Worker(program, { eval: true });
  const [warnings] = await once(worker, 'message');
  expect(warnings).toEqual([]);
  await worker.terminate();
});
