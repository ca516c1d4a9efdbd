import { execFileSync, spawn } from 'node:child_process';
import { once, setMaxListeners } from 'node:events';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { FileError } from '../../../../src/files/errors.ts';
import type { FileContent, FileSystem } from '../../../../src/files/file-system.ts';
import { LOCAL_FILE_SYSTEM } from '../../../../src/files/local/local-file-system.ts';
import {
  ANSWER_CONTENT_BYTES,
  MAX_HELPER_FILES,
  MAX_QUEUED_OPERATIONS,
  MAX_WAITING_WRITES,
  OPERATION_CONCURRENCY,
  UNSENT_ANSWER_BYTES,
} from '../../../../src/sandbox/files/limits.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { Scratch } from '../../files/local/scratch.ts';
import { contentOf, FOLLOW, NO_FOLLOW, waitingForever } from './helper-fixture.ts';
import { sameAnswers } from './same-answers.ts';
import { serve } from './served-pair.ts';

const WALK = {
  maxDepth: 8,
  maxDirectories: 100,
  maxEntries: 1_000,
  followDirectorySymlinks: false,
  pruneHiddenDirectories: false,
};

describe('files through pipes', () => {
  const scratch = new Scratch();
  sameAnswers(scratch, async () => (await serve()).files);

  test('returns results as they finish, in any order', async () => {
    const gates: (() => void)[] = [];
    const slow: FileSystem = {
      ...LOCAL_FILE_SYSTEM,
      getMetadata: async (path, options) => {
        if (path === '/') await new Promise<void>((resolve) => gates.push(resolve));
        return await LOCAL_FILE_SYSTEM.getMetadata(path, options);
      },
    };
    const { files } = await serve(slow);
    const order: string[] = [];
    const first = files.getMetadata(scratch.at('/'), FOLLOW).then(() => order.push('first'));
    await files.getMetadata(scratch.at('.'), FOLLOW).then(() => order.push('second'));
    gates[0]!();
    await first;
    expect(order).toEqual(['second', 'first']);
  });

  test('keeps the kind and message of errors that are not system errors', async () => {
    const failing: FileSystem = {
      ...LOCAL_FILE_SYSTEM,
      canonicalize: async () => {
        throw new FileError('refused', 'no, thank you — ünïcode');
      },
      getMetadata: async () => {
        throw new TypeError('a mistake');
      },
    };
    const { files } = await serve(failing);
    await expect(files.canonicalize(scratch.at('.'))).rejects.toMatchObject({
      name: 'FileError',
      kind: 'refused',
      errno: null,
      message: 'no, thank you — ünïcode',
    });
    await expect(files.getMetadata(scratch.at('.'), FOLLOW)).rejects.toMatchObject({
      kind: 'failed',
      message: 'a mistake',
    });
  });

  test('a very long path fails only its own operation', async () => {
    const { files, search } = await serve();
    const long = scratch.at(`x/${'y'.repeat(100_000)}`);
    await expect(files.canonicalize(long)).rejects.toMatchObject({ errno: 36 });
    const pattern = `(${'z'.repeat(200_000)}`;
    const found = search({ path: scratch.at('.'), pattern }, new AbortController().signal, {});
    await expect(found).rejects.toMatchObject({ name: 'FileError', kind: 'refused' });
    expect((await files.getMetadata(scratch.at('.'), FOLLOW)).isDirectory).toBe(true);
  });

  test.each([0, 1, 65_535, 65_536, 65_537, 3 * 1024 * 1024 + 1])(
    'transfers a file of %i bytes',
    async (size) => {
      const { files } = await serve();
      const bytes = Buffer.from(Uint8Array.from({ length: size }, (_, index) => index % 253));
      await files.writeFile(scratch.at('file'), bytes, FOLLOW, waitingForever());
      expect(readFileSync(scratch.at('file')).equals(bytes)).toBe(true);
      expect((await contentOf(files, scratch.at('file'))).equals(bytes)).toBe(true);
      await waitFor('the file to be closed', () => scratch.openFiles().length === 0);
    },
  );

  test('reads content in pieces of any size, and can stop early', async () => {
    const { files } = await serve();
    const bytes = Buffer.from(Uint8Array.from({ length: 200_000 }, (_, index) => index % 251));
    writeFileSync(scratch.at('file'), bytes);
    const content = await files.readFile(scratch.at('file'), FOLLOW);
    expect(content.size).toBe(200_000);
    const pieces: Buffer[] = [];
    for (const size of [10, 65_000, 70_000, 1]) {
      const piece = Buffer.alloc(size);
      expect(await content.read(piece)).toBe(size);
      pieces.push(piece);
    }
    expect(Buffer.concat(pieces).equals(bytes.subarray(0, 135_011))).toBe(true);
    expect(scratch.openFiles()).toHaveLength(1);
    await content.close();
    expect(scratch.openFiles()).toEqual([]);
  });

  test('a write to a FIFO reports that it waits, and continues when there is a reader', async () => {
    const { files } = await serve();
    const fifo = scratch.fifo('fifo');
    const waits = new Promise<void>((resolve) => {
      void (async () => {
        const waiting = { signal: new AbortController().signal, onWait: resolve };
        await files.writeFile(fifo, Buffer.from('hello'), FOLLOW, waiting);
      })();
    });
    await waits;
    const reader = spawn('cat', [fifo], { stdio: ['ignore', 'pipe', 'ignore'] });
    const [text] = await once(reader.stdout, 'data');
    expect(String(text)).toBe('hello');
    await once(reader, 'close');
  });

  test('a write to a FIFO can be cancelled', async () => {
    const { files } = await serve();
    const end = new AbortController();
    const waiting = { signal: end.signal, onWait: () => end.abort() };
    await expect(
      files.writeFile(scratch.fifo('fifo'), Buffer.from('x'), FOLLOW, waiting),
    ).rejects.toMatchObject({ kind: 'failed', message: expect.stringContaining('cancelled') });
  });

  test('writes that wait for readers free their slots, up to a limit', async () => {
    const { files } = await serve();
    const fifo = scratch.fifo('fifo');
    const end = new AbortController();
    setMaxListeners(0, end.signal);
    let waited = 0;
    const waiting = {
      signal: end.signal,
      onWait: () => {
        waited++;
      },
    };
    const write = () => files.writeFile(fifo, Buffer.from('x'), FOLLOW, waiting);
    const patient = Array.from({ length: MAX_WAITING_WRITES }, () => write().catch((error: Error) => error));
    await waitFor('all writes to wait', () => waited === MAX_WAITING_WRITES);
    await expect(write()).rejects.toMatchObject({ kind: 'failed' });
    expect(waited).toBe(MAX_WAITING_WRITES);
    expect((await files.getMetadata(scratch.at('.'), FOLLOW)).isDirectory).toBe(true);
    end.abort();
    await Promise.all(patient);
  });

  test('handles an abort that arrives with its request', async () => {
    const seen: boolean[] = [];
    const watched: FileSystem = {
      ...LOCAL_FILE_SYSTEM,
      writeFile: async (_path, _bytes, _options, { signal }) => {
        seen.push(signal.aborted);
      },
    };
    const { files, requests } = await serve(watched);
    const end = new AbortController();
    requests.pause();
    const written = files.writeFile(scratch.at('f'), Buffer.from('x'), FOLLOW, {
      signal: end.signal,
      onWait: () => {},
    });
    await waitFor('the request', () => requests.readableLength > 0);
    const requestBytes = requests.readableLength;
    end.abort();
    await waitFor('the abort', () => requests.readableLength > requestBytes);
    // Both are read in one turn.
    requests.resume();
    await written;
    expect(seen).toEqual([true]);
  });

  test('a long write that is aborted does not block others', async () => {
    const { files, requests, timesBroken } = await serve();
    const end = new AbortController();
    requests.pause();
    const write = files.writeFile(scratch.at('long'), Buffer.alloc(4 * 1024 * 1024), FOLLOW, {
      signal: end.signal,
      onWait: () => {},
    });
    const outcome = write.then(
      () => 'done',
      () => 'given up',
    );
    await waitFor('the first frame', () => requests.readableLength > 0);
    end.abort();
    requests.resume();
    expect(await outcome).toMatch(/done|given up/);
    expect(await files.canonicalize(scratch.at('/'))).toBe('/');
    expect(timesBroken()).toBe(0);
  });

  test('an aborted walk ends immediately', async () => {
    const slow: FileSystem = {
      ...LOCAL_FILE_SYSTEM,
      walk: (_path, _options, signal) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
        }),
    };
    const { files } = await serve(slow);
    const end = new AbortController();
    const walk = files.walk(scratch.at('.'), WALK, end.signal);
    end.abort(new FileError('failed', 'the connection has ended'));
    await expect(walk).rejects.toThrow('the connection has ended');
  });

  test('a search finds lines', async () => {
    const { search } = await serve();
    writeFileSync(scratch.at('a'), 'one\ntwo needle\n');
    const { matches, engine } = await search(
      { path: scratch.at('.'), pattern: 'needle' },
      new AbortController().signal,
      {},
    );
    expect(engine).toBe('builtin');
    expect(matches).toEqual([{ path: scratch.at('a'), line: 2, column: 5, text: 'two needle' }]);
  });

  test('a search counts for its session', async () => {
    const { search, searchSessions } = await serve();
    const [one, two] = [{}, {}];
    const query = { path: scratch.at('.'), pattern: 'needle' };
    for (const owner of [one, two, one]) await search(query, new AbortController().signal, owner);
    expect(searchSessions).toEqual([1, 2, 1]);
  });

  test('limits the concurrent operations', async () => {
    let now = 0;
    let most = 0;
    const counting: FileSystem = {
      ...LOCAL_FILE_SYSTEM,
      canonicalize: async (path) => {
        most = Math.max(most, ++now);
        await new Promise((resolve) => setImmediate(resolve));
        now--;
        return path;
      },
    };
    const { files } = await serve(counting);
    await Promise.all(Array.from({ length: 1_000 }, () => files.canonicalize(scratch.at('.'))));
    expect(most).toBe(OPERATION_CONCURRENCY);
  });

  test('limits the concurrent content', async () => {
    const sizes: number[] = [];
    let now = 0;
    const counting: FileSystem = {
      ...LOCAL_FILE_SYSTEM,
      writeFile: async (_path, bytes) => {
        now += bytes.length;
        sizes.push(now);
        await new Promise((resolve) => setImmediate(resolve));
        now -= bytes.length;
      },
    };
    const { files } = await serve(counting);
    const megabytes = Buffer.alloc(20 * 1024 * 1024);
    await Promise.all(
      Array.from({ length: 4 }, () => files.writeFile(scratch.at('x'), megabytes, FOLLOW, waitingForever())),
    );
    expect(sizes).toEqual(new Array(4).fill(megabytes.length));
  });

  test('refuses operations when the queue is full', async () => {
    const { files, die } = await serve({ ...LOCAL_FILE_SYSTEM, canonicalize: () => new Promise(() => {}) });
    const all = Array.from({ length: OPERATION_CONCURRENCY + MAX_QUEUED_OPERATIONS }, () =>
      files.canonicalize(scratch.at('.')).catch((error: Error) => error.message),
    );
    await expect(files.canonicalize(scratch.at('.'))).rejects.toThrow('wait for the fs sandbox helper');
    die();
    expect(new Set(await Promise.all(all))).toEqual(new Set(['fs sandbox helper died']));
  });

  test('limits the open files', async () => {
    const open: FileSystem['open'] = async () => ({
      read: async () => Buffer.alloc(0),
      write: async () => {},
      close: async () => {},
      discard: async () => {},
    });
    const { files } = await serve({ ...LOCAL_FILE_SYSTEM, open });
    const opened = await Promise.all(
      Array.from({ length: MAX_HELPER_FILES }, () => files.open(scratch.at('x'), 'read')),
    );
    await expect(files.open(scratch.at('x'), 'read')).rejects.toMatchObject({ errno: 24 });
    await opened[0]!.close();
    await (await files.open(scratch.at('x'), 'read')).close();
  });

  test('reads no requests while too many answers are unsent', async () => {
    let reads = 0;
    const size = 1024 * 1024;
    const content: FileContent = {
      size: 2 ** 40,
      read: async (buffer) => buffer.length,
      close: async () => {},
    };
    const counting: FileSystem = {
      ...LOCAL_FILE_SYSTEM,
      readFile: async () => content,
      open: async () => ({
        read: async () => {
          reads++;
          return Buffer.alloc(size);
        },
        write: async () => {},
        close: async () => {},
        discard: async () => {},
      }),
    };
    const { files, answers, requests } = await serve(counting);
    const file = await files.open(scratch.at('x'), 'read');
    answers.pause();
    const all = Array.from({ length: 64 }, (_, index) => file.read(index, size));
    await waitFor('the helper to hold back', () => requests.isPaused());
    expect(reads * size).toBeGreaterThan(UNSENT_ANSWER_BYTES);
    const held = reads;
    answers.resume();
    expect((await Promise.all(all)).every((bytes) => bytes.length === size)).toBe(true);
    expect(held).toBeLessThan(reads);
  });

  test('pending and later operations fail when the helper dies', async () => {
    const { files, channel, die } = await serve({
      ...LOCAL_FILE_SYSTEM,
      canonicalize: () => new Promise(() => {}),
    });
    writeFileSync(scratch.at('file'), 'x'.repeat(100_000));
    const [content, file] = await Promise.all([
      files.readFile(scratch.at('file'), FOLLOW),
      files.open(scratch.at('file'), 'read'),
    ]);
    const hanging = files.canonicalize(scratch.at('.'));
    die();
    await expect(hanging).rejects.toMatchObject({ name: 'FileError', kind: 'failed' });
    await expect(files.canonicalize(scratch.at('.'))).rejects.toThrow('died');
    await expect(content.read(Buffer.alloc(100_000))).rejects.toThrow('died');
    await expect(file.read(0, 1)).rejects.toThrow('died');
    await expect(file.close()).rejects.toThrow('died');
    await file.discard();
    expect(channel.failure).not.toBeNull();
  });

  test('the end of the input discards open files', async () => {
    const { files, requests, served } = await serve();
    writeFileSync(scratch.at('file'), 'old');
    await files.open(scratch.at('file'), 'read');
    const replacement = await files.open(scratch.at('file'), 'atomicReplace');
    await replacement.write(0, Buffer.from('new'));
    expect(readdirSync(scratch.at('.'))).toHaveLength(2);
    requests.end();
    await served;
    expect(readdirSync(scratch.at('.'))).toEqual(['file']);
    expect(readFileSync(scratch.at('file'), 'utf8')).toBe('old');
    expect(scratch.openFiles()).toEqual([]);
  });

  test.each<[string, (bytes: Buffer) => void]>([
    ['that is no frame', (bytes) => bytes.fill(0xff)],
    ['to nothing', (bytes) => bytes.writeUInt32LE(4_000_000, 5)],
    ['that asks', (bytes) => bytes.writeUInt8(1, 4)],
    ['with more than was asked for', (bytes) => bytes.writeUInt32LE(ANSWER_CONTENT_BYTES + 1, 13)],
  ])('an answer %s is a protocol error', async (_name, corrupt) => {
    const { files, channel, answers, timesBroken } = await serve();
    answers.removeAllListeners('data');
    answers.on('data', (bytes: Buffer) => {
      const copy = Buffer.from(bytes);
      corrupt(copy);
      channel.receive(copy);
    });
    await expect(files.canonicalize(scratch.at('.'))).rejects.toMatchObject({
      kind: 'failed',
      message: expect.stringContaining('invalid message'),
    });
    expect(timesBroken()).toBe(1);
  });

  test('the helper stops at an invalid message', async () => {
    const { requests, served } = await serve();
    requests.write(Buffer.alloc(64, 0xff));
    await served;
  });

  test('reports a helper that accepts no requests, and fails all operations', async () => {
    const { files, requests, timesBroken, die } = await serve();
    requests.destroy();
    const looks = [1, 2, 3].map(() => files.getMetadata(scratch.at('.'), NO_FOLLOW));
    await waitFor('the failure to be noticed', () => timesBroken() > 0);
    die();
    for (const look of looks) await expect(look).rejects.toThrow('died');
  });

  test('keeps names that are not UTF-8', async () => {
    const { files } = await serve();
    execFileSync('sh', ['-c', 'printf x > "$(printf \'\\377\\351\')"'], { cwd: scratch.at('.') });
    const [entry] = await files.readDirectory(scratch.at('.'));
    expect(entry).toEqual({ name: '\xff\xe9', isDirectory: false, isFile: true });
    const path = `${scratch.at('.')}/\xff\xe9` as ReturnType<typeof scratch.at>;
    expect(String(await contentOf(files, path))).toBe('x');
    expect(statSync(Buffer.from(path, 'latin1')).size).toBe(1);
  });
});
