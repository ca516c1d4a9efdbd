import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { FileSystem } from '../../../src/files/file-system.ts';
import { nativePathOfText } from '../../../src/files/native-path.ts';
import type { CachedCalls } from '../../../src/native/cached-calls.ts';
import { SharedCachedCalls } from '../../../src/native/shared-cached-calls.ts';
import { servedFiles } from '../../../src/server/sessions/connection-files.ts';
import { waitFor } from '../../support/wait-for.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shared-cached-calls-'));
  writeFileSync(join(folder, 'file'), 'content');
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

async function read(files: FileSystem): Promise<string> {
  const content = await files.readFile(nativePathOfText(join(folder, 'file')), { followSymlinks: true });
  const buffer = Buffer.alloc(20);
  const text = buffer.toString('latin1', 0, await content.read(buffer));
  await content.close();
  return text;
}

test('loads native calls on the first read and uses them from then on', async () => {
  const openFile = vi.fn(() => null);
  const load = vi.fn(async () => ({ openFile, read: () => null }) as unknown as CachedCalls);
  const files = servedFiles(true, new SharedCachedCalls(load));
  expect(load).not.toHaveBeenCalled();
  await waitFor('a native call', async () => {
    expect(await read(files)).toBe('content');
    return openFile.mock.calls.length > 0;
  });
  expect(load).toHaveBeenCalledOnce();
});

test('reads files without native calls when they cannot be loaded, and does not retry', async () => {
  const load = vi.fn(() => Promise.reject(new Error('not available')));
  const files = servedFiles(true, new SharedCachedCalls(load));
  await waitFor('the attempt', async () => {
    expect(await read(files)).toBe('content');
    return load.mock.calls.length > 0;
  });
  expect(await read(files)).toBe('content');
  expect(load).toHaveBeenCalledOnce();
});

test('does not load native calls when they are switched off', async () => {
  const load = vi.fn();
  const files = servedFiles(false, new SharedCachedCalls(load));
  expect(await read(files)).toBe('content');
  expect(await read(files)).toBe('content');
  expect(load).not.toHaveBeenCalled();
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
        await environment.files.writeFile(${JSON.stringify(file.href)} + index, 'x'.repeat(300 * index));
        await environment.files.readFile(${JSON.stringify(file.href)} + index);
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
