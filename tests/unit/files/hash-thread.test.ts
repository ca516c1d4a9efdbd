import { createHash } from 'node:crypto';
import { appendFileSync, truncateSync, writeFileSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { HashThread } from '../../../src/files/hash-thread.ts';
import { HASH_PIECE_BYTES, HASH_TURN_BYTES } from '../../../src/files/limits.ts';
import { hashFile } from '../../../src/files/local/hash-file.ts';
import { nativePathOfText } from '../../../src/files/native-path.ts';
import { threadedFileSystem } from '../../../src/files/threaded-file-system.ts';
import { waitFor } from '../../support/wait-for.ts';
import { Scratch } from './local/scratch.ts';

const scratch = new Scratch();
const FOLLOW = { followSymlinks: true };
const NEVER = new AbortController().signal;
const PROGRAM = new URL('../../../dist/files/thread/hash-worker.js', import.meta.url);

const workers: Worker[] = [];
const startWorker = () => {
  const worker = new Worker(PROGRAM);
  workers.push(worker);
  return worker;
};

afterEach(async () => {
  for (const worker of workers.splice(0)) await worker.terminate();
});

function contentOf(bytes: number): Buffer {
  return Buffer.from(Uint8Array.from({ length: bytes }, (_, index) => (index * 31 + (index >> 8)) % 256));
}

function sha256(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

const SIZES = [
  0,
  1,
  HASH_TURN_BYTES - 1,
  HASH_TURN_BYTES,
  HASH_TURN_BYTES + 1,
  HASH_PIECE_BYTES - 1,
  HASH_PIECE_BYTES,
  HASH_PIECE_BYTES + 1,
  3 * HASH_PIECE_BYTES + 5,
];

test.each(SIZES)('a file of %d bytes has the same hash with and without the thread', async (size) => {
  const content = contentOf(size);
  const path = scratch.at('file');
  writeFileSync(path, content);
  const expected = { sha256: sha256(content), size };
  expect(await hashFile(path, FOLLOW, NEVER)).toEqual(expected);
  const files = threadedFileSystem({ threads: null, prepare: () => {} }, new HashThread(startWorker));
  expect(await files.hash(path, FOLLOW, NEVER)).toEqual(expected);
  expect(workers).toHaveLength(size > HASH_TURN_BYTES ? 1 : 0);
});

test('hashes a file that the kernel generates, whose size is 0', async () => {
  const version = nativePathOfText('/proc/version');
  expect((await hashFile(version, FOLLOW, NEVER)).size).toBeGreaterThan(10);
});

test('hashes several files at a time on one thread', async () => {
  const thread = new HashThread(startWorker);
  const hashes = Array.from({ length: 8 }, async (_, index) => {
    const path = scratch.at(`file-${index}`);
    const content = contentOf(HASH_PIECE_BYTES * 2 + index);
    writeFileSync(path, content);
    expect((await hashFile(path, FOLLOW, NEVER, thread)).sha256).toBe(sha256(content));
  });
  await Promise.all(hashes);
  expect(workers).toHaveLength(1);
});

test('reads to the end of a file that grows', async () => {
  const path = scratch.at('file');
  writeFileSync(path, contentOf(HASH_TURN_BYTES * 2));
  const growing = {
    pieceBytes: HASH_TURN_BYTES,
    sizes: [] as number[],
    update(piece: Buffer<ArrayBuffer>, length: number) {
      if (this.sizes.push(length) === 1) appendFileSync(path, 'more');
      return piece;
    },
    digest: () => 'done',
    drop: () => {},
  };
  const { size } = await hashFile(path, FOLLOW, NEVER, { begin: () => growing });
  expect(size).toBe(HASH_TURN_BYTES * 2 + 4);
});

test('an abort ends a hash, and the thread goes on with the others', async () => {
  const thread = new HashThread(startWorker);
  const hole = scratch.at('hole');
  writeFileSync(hole, '');
  truncateSync(hole, 2 ** 42);
  const giveUp = new AbortController();
  const hashing = hashFile(hole, FOLLOW, giveUp.signal, thread);
  await waitFor('the thread', () => workers.length === 1);
  giveUp.abort(new Error('no longer needed'));
  await expect(hashing).rejects.toThrow('no longer needed');
  const path = scratch.at('file');
  writeFileSync(path, contentOf(HASH_PIECE_BYTES));
  expect((await hashFile(path, FOLLOW, NEVER, thread)).sha256).toBe(sha256(contentOf(HASH_PIECE_BYTES)));
});

test('a thread that ends fails its hashes; later ones do without it', async () => {
  const thread = new HashThread(startWorker);
  const hasher = thread.begin()!;
  const updating = hasher.update(Buffer.from(new ArrayBuffer(8)), 8);
  const failed = expect(updating).rejects.toThrow('the thread that computes hashes has ended');
  await workers[0]!.terminate();
  await failed;
  await expect(hasher.digest()).rejects.toThrow('the thread that computes hashes has ended');
  expect(thread.begin()).toBeNull();
  const path = scratch.at('file');
  writeFileSync(path, contentOf(HASH_PIECE_BYTES));
  expect((await hashFile(path, FOLLOW, NEVER, thread)).size).toBe(HASH_PIECE_BYTES);
});

test('a thread that cannot be started is not needed', async () => {
  const thread = new HashThread(() => {
    throw new Error('no threads here');
  });
  expect(thread.begin()).toBeNull();
});

test('the thread ends when it is idle, and starts again', async () => {
  const thread = new HashThread(startWorker, 1);
  const exits: number[] = [];
  for (let round = 0; round < 2; round++) {
    const hasher = thread.begin()!;
    workers.at(-1)!.once('exit', (code) => exits.push(code));
    expect(await hasher.digest()).toBe(sha256(Buffer.alloc(0)));
    await waitFor('the end of the thread', () => exits.length === round + 1);
  }
  expect(workers).toHaveLength(2);
});
