import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { Errno, systemError } from '../../../src/files/errors.ts';
import { FileHandles } from '../../../src/files/file-handles.ts';
import type { OpenFile } from '../../../src/files/file-system.ts';
import { HashPieces } from '../../../src/files/hash-pieces.ts';
import { HashThread } from '../../../src/files/hash-thread.ts';
import { HashedFile } from '../../../src/files/hashed-file.ts';
import { HASH_PIECE_BYTES, HASHED_PIECES, MAX_FREE_HASH_PIECES } from '../../../src/files/limits.ts';
import { openAtomicReplacement } from '../../../src/files/local/atomic-replace.ts';
import { type ContentHasher, inlineHasher } from '../../../src/files/local/hash-file.ts';
import { nativePathOfText } from '../../../src/files/native-path.ts';
import { waitFor } from '../../support/wait-for.ts';
import { Scratch } from './local/scratch.ts';

const scratch = new Scratch();
const CONTENT = Buffer.alloc(200_000, 'content ');
const SHA256 = createHash('sha256').update(CONTENT).digest('hex');
const KEY = 'a'.repeat(32);

/** Opens a replacement of `file` under the handle `h`. */
async function opened(hash = true, options: { resumeKey?: string } = {}): Promise<FileHandles> {
  const handles = new FileHandles();
  await handles.open('h', async () => {
    const path = nativePathOfText(scratch.at('file'));
    const file = await openAtomicReplacement(path, { attributes: { mode: 0o600 }, ...options });
    return hash ? new HashedFile(file, inlineHasher()) : file;
  });
  return handles;
}

/** The name and content of what is in the folder. */
function found(): Record<string, string> {
  const folder = scratch.at('');
  return Object.fromEntries(
    readdirSync(folder).map((name) => [name, readFileSync(scratch.at(name), 'utf8')]),
  );
}

const refusal = (message: string) => ({ kind: 'refused', message: expect.stringContaining(message) });

test('replaces a file whose blocks have the expected hash', async () => {
  for (const blockBytes of [1_000, 65_536, CONTENT.length]) {
    writeFileSync(scratch.at('file'), 'old');
    const handles = await opened();
    for (let at = 0; at < CONTENT.length; at += blockBytes) {
      await handles.writeBlock('h', at, CONTENT.subarray(at, at + blockBytes));
    }
    await handles.close('h', null, { sha256: SHA256 });
    expect(found()).toEqual({ file: CONTENT.toString() });
  }
});

test('replaces a file by an empty one', async () => {
  const handles = await opened();
  await handles.close('h', null, { sha256: createHash('sha256').digest('hex') });
  expect(found()).toEqual({ file: '' });
});

test('keeps the old file when the blocks have another hash', async () => {
  writeFileSync(scratch.at('file'), 'old');
  const handles = await opened();
  await handles.writeBlock('h', 0, CONTENT.subarray(1));
  await expect(handles.close('h', null, { sha256: SHA256 })).rejects.toMatchObject(
    refusal(`not ${SHA256}; nothing was replaced`),
  );
  expect(found()).toEqual({ file: 'old' });
});

test('keeps the old file when the blocks were not written in order from the start', async () => {
  writeFileSync(scratch.at('file'), 'old');
  const orders: [number, number][][] = [
    [
      [100, CONTENT.length],
      [0, 100],
    ],
    [[1, CONTENT.length]],
    [
      [0, 100],
      [0, CONTENT.length],
    ],
  ];
  for (const blocks of orders) {
    const handles = await opened();
    for (const [from, to] of blocks) await handles.writeBlock('h', from, CONTENT.subarray(from, to));
    await expect(handles.close('h', null, { sha256: SHA256 })).rejects.toMatchObject(refusal('in order'));
    expect(found()).toEqual({ file: 'old' });
  }
});

test('does not know the hash of a part that was there before', async () => {
  const first = await opened(true, { resumeKey: KEY });
  await first.writeBlock('h', 0, Buffer.concat([CONTENT, CONTENT]));
  await first.close('h', null, { discard: true });
  const second = await opened(true, { resumeKey: KEY });
  await second.writeBlock('h', 0, CONTENT);
  await expect(second.close('h', null, { sha256: SHA256 })).rejects.toMatchObject(refusal('in order'));
  expect(Object.keys(found())).toEqual([`.file.exec-server-${KEY}.part`]);
});

test('compares the hash only of files that are open and hashed', async () => {
  const handles = await opened(false);
  await expect(handles.close('other', null, { sha256: SHA256 })).rejects.toMatchObject({ kind: 'notFound' });
  await expect(handles.close('h', null, { sha256: SHA256 })).rejects.toMatchObject(refusal('with hash'));
  expect(found()).toEqual({});
});

/** A file in memory. */
class FakeFile implements OpenFile {
  failure: Error | null = null;
  async read(): Promise<Buffer> {
    return Buffer.alloc(0);
  }
  async write(): Promise<void> {
    if (this.failure !== null) throw this.failure;
  }
  async close(): Promise<void> {}
  async discard(): Promise<void> {}
}

test('does not know the hash after a write that failed', async () => {
  const file = new FakeFile();
  const hashed = new HashedFile(file, inlineHasher());
  file.failure = systemError(Errno.EIO);
  await expect(hashed.write(0, CONTENT)).rejects.toMatchObject({ errno: Errno.EIO });
  expect(await hashed.digest()).toBe(null);
});

test('a hasher that does not keep up delays the writes, and its error is that of the digest', async () => {
  const waiting: ((error: Error) => void)[] = [];
  let dropped = 0;
  const hasher: ContentHasher = {
    pieceBytes: 10,
    update: () => new Promise((_, reject) => waiting.push(reject)),
    digest: () => '',
    drop: () => dropped++,
  };
  const hashed = new HashedFile(new FakeFile(), hasher);
  await hashed.write(0, Buffer.alloc(10 * HASHED_PIECES));
  let isWritten = false;
  const next = hashed.write(10 * HASHED_PIECES, Buffer.alloc(1)).then(() => {
    isWritten = true;
  });
  await new Promise(setImmediate);
  // One piece is hashed at a time.
  expect([isWritten, waiting.length]).toEqual([false, 1]);
  waiting[0]!(new Error('the thread has ended'));
  await next;
  // Later writes do not wait for the hasher any more.
  await hashed.write(10 * HASHED_PIECES + 1, Buffer.alloc(10 * (HASHED_PIECES + 1)));
  expect(waiting.length).toBe(1);
  await expect(hashed.digest()).rejects.toThrow('the thread has ended');
  await hashed.discard();
  await new Promise(setImmediate);
  expect(dropped).toBe(1);
});

test('a close with a SHA-256 fails and changes nothing after an error of the hasher', async () => {
  const file = new FakeFile();
  const ends: string[] = [];
  file.close = async () => void ends.push('close');
  file.discard = async () => void ends.push('discard');
  const update = async () => {
    throw new Error('the thread that computes hashes has ended');
  };
  const hasher = { pieceBytes: 10, update, digest: () => SHA256, drop: () => {} };
  const handles = new FileHandles();
  await handles.open('h', async () => new HashedFile(file, hasher));
  for (const offset of [0, 100, 200]) await handles.writeBlock('h', offset, Buffer.alloc(100));
  await expect(handles.close('h', null, { sha256: SHA256 })).rejects.toThrow('computes hashes has ended');
  expect(ends).toEqual(['discard']);
  await handles.dispose();
});

test('all files share a limited number of pieces, and idle files keep none', async () => {
  const pieces = new HashPieces(6);
  const thread = new HashThread();
  const files = Array.from({ length: 10 }, () => new HashedFile(new FakeFile(), thread.begin()!, pieces));
  const block = Buffer.alloc(HASHED_PIECES * HASH_PIECE_BYTES, 7);
  const seen: number[] = [];
  await Promise.all(
    files.map(async (file) => {
      await file.write(0, block);
      seen.push(pieces.counts.taken + pieces.counts.free);
    }),
  );
  expect(Math.max(...seen)).toBeLessThanOrEqual(6);
  const digests = await Promise.all(files.slice(1).map((file) => file.digest()));
  expect(new Set(digests)).toEqual(new Set([createHash('sha256').update(block).digest('hex')]));
  // A file that ends while its pieces are hashed gives them back too.
  await files[0]!.write(block.length, block);
  await files[0]!.discard();
  await waitFor('the pieces', () => pieces.counts.taken === 0);
  expect(pieces.counts.free).toBeLessThanOrEqual(MAX_FREE_HASH_PIECES);
});
