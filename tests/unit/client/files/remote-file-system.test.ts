import { describe, expect, test, vi } from 'vitest';
import { ClientError } from '../../../../src/client/errors.ts';
import { RemoteFileSystem } from '../../../../src/client/files/remote-file-system.ts';
import { FILE_BLOCK_BYTES, FILE_BLOCKS_IN_FLIGHT } from '../../../../src/client/limits.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { answered, FakeFileServer } from '../fake-file-server.ts';

const METADATA = {
  isDirectory: false,
  isFile: true,
  isSymlink: false,
  size: 1,
  createdAtMs: 0,
  modifiedAtMs: 0,
};
const FILE = 'file:///f';

function setUp(capabilities: readonly string[] = []) {
  const server = new FakeFileServer(capabilities);
  return { server, files: new RemoteFileSystem(server) };
}

async function collect(blocks: AsyncIterable<Uint8Array>): Promise<number[]> {
  const sizes: number[] = [];
  for await (const block of blocks) sizes.push(block.length);
  return sizes;
}

function base64(bytes: number): string {
  return Buffer.alloc(bytes).toString('base64');
}

describe('requests', () => {
  test('mention links only when they must not be followed', async () => {
    const { server, files } = setUp();
    server.answer('fs/readFile', { dataBase64: '' });
    await files.readFile(FILE, { followSymlinks: true });
    await files.readFile(FILE);
    await files.readFile(FILE, { followSymlinks: false });
    expect(server.params('fs/readFile')).toEqual([
      { path: FILE },
      { path: FILE },
      { path: FILE, followSymlinks: false },
    ]);
  });

  test('leave out sandbox directories that no rule needs', async () => {
    const { server, files } = setUp();
    server.answer('fs/readFile', { dataBase64: '' });
    const sandbox = { permissions: { type: 'disabled' }, cwd: 'file:///w', workspaceRoots: [] };
    await files.readFile(FILE, { sandbox });
    await files.readFile(FILE, { sandbox: null });
    expect(server.params('fs/readFile')).toEqual([
      { path: FILE, sandbox: { permissions: { type: 'disabled' } } },
      { path: FILE },
    ]);
  });

  test('encode text as UTF-8', async () => {
    const { server, files } = setUp();
    server.answer('fs/writeFile', {});
    await files.writeFile(FILE, 'é');
    expect(server.params('fs/writeFile')).toEqual([{ path: FILE, dataBase64: 'w6k=' }]);
  });

  test('pass on the signal and the timeout', async () => {
    const { server, files } = setUp();
    server.answer('fs/canonicalize', { path: FILE });
    const { signal } = new AbortController();
    await files.canonicalize(FILE, { signal, timeoutMs: 5 });
    expect(server.calls[0]?.options).toEqual({ signal, timeoutMs: 5 });
  });
});

describe('results', () => {
  test.each([
    [answered(-32004, 'why'), 'notFound'],
    [answered(-32600, 'why'), 'invalidInput'],
    [answered(-32602, 'why'), 'invalidInput'],
    [answered(-32603, 'why'), 'server'],
    [new ClientError('disconnected', 'why'), 'brokenPipe'],
    [new ClientError('brokenPipe', 'why'), 'brokenPipe'],
    [new ClientError('timeout', 'why'), 'timeout'],
  ])('%# becomes an error of the kind %s', async (error, kind) => {
    const { server, files } = setUp();
    server.refuse('fs/readDirectory', error);
    const failure = files.readDirectory(FILE);
    await expect(failure).rejects.toMatchObject({
      name: 'ClientError',
      kind,
      message: 'why',
      code: error.code,
    });
  });

  test.each(['%', 'YQ', 'YQ==YQ==', 'YR=='])('reject %s as content with invalidData', async (dataBase64) => {
    const { server, files } = setUp();
    server.answer('fs/readFile', { dataBase64 });
    await expect(files.readFile(FILE)).rejects.toMatchObject({ kind: 'invalidData' });
  });

  test.each([null, 'text', 1])('reject %j as the whole result with a protocol error', async (result) => {
    const { server, files } = setUp();
    server.answer('fs/canonicalize', result);
    await expect(files.canonicalize(FILE)).rejects.toMatchObject({ kind: 'protocol' });
  });

  test('reject missing content with invalidData', async () => {
    const { server, files } = setUp();
    server.answer('fs/readFile', {});
    await expect(files.readFile(FILE)).rejects.toMatchObject({ kind: 'invalidData' });
  });

  test('keep a byte order mark, and must be UTF-8', async () => {
    const { server, files } = setUp();
    server.answer('fs/readFile', { dataBase64: Buffer.from('\ufeffé').toString('base64') });
    expect(await files.readFileText(FILE)).toBe('\ufeffé');
    server.answer('fs/readFile', { dataBase64: Buffer.from([0x61, 0xff]).toString('base64') });
    await expect(files.readFileText(FILE)).rejects.toMatchObject({ kind: 'invalidData' });
  });
});

describe('concurrent metadata requests for a path', () => {
  test('share one call while it is pending', async () => {
    const { server, files } = setUp();
    const answer = server.hold('fs/getMetadata');
    const first = files.getMetadata(FILE);
    const second = files.getMetadata(FILE, { followSymlinks: true });
    answer(METADATA);
    expect(await Promise.all([first, second])).toEqual([METADATA, METADATA]);
    expect(server.params('fs/getMetadata')).toHaveLength(1);
    server.answer('fs/getMetadata', { ...METADATA, size: 2 });
    expect(await files.getMetadata(FILE)).toMatchObject({ size: 2 });
    expect(server.params('fs/getMetadata')).toHaveLength(2);
  });

  test.each([
    ['sent with followSymlinks', { followSymlinks: false }],
    ['in a sandbox', { sandbox: {} }],
    ['sent with a timeout', { timeoutMs: 1 }],
    ['sent with a signal', { signal: new AbortController().signal }],
  ])('are separate when one is %s', async (_name, options) => {
    const { server, files } = setUp();
    const answer = server.hold('fs/getMetadata');
    const both = Promise.all([files.getMetadata(FILE), files.getMetadata(FILE, options)]);
    answer(METADATA);
    await both;
    expect(server.params('fs/getMetadata')).toHaveLength(2);
  });

  test('all fail with the shared call, and the next one is sent again', async () => {
    const { server, files } = setUp();
    server.refuse('fs/getMetadata', answered(-32004, 'why'));
    const both = await Promise.allSettled([files.getMetadata(FILE), files.getMetadata(FILE)]);
    expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(server.params('fs/getMetadata')).toHaveLength(1);
    server.answer('fs/getMetadata', METADATA);
    expect(await files.getMetadata(FILE)).toEqual(METADATA);
  });

  const changes: Record<string, (files: RemoteFileSystem) => Promise<void>> = {
    writeFile: (files) => files.writeFile('file:///other', ''),
    createDirectory: (files) => files.createDirectory('file:///other'),
    remove: (files) => files.remove('file:///other'),
    copy: (files) => files.copy(FILE, 'file:///other', { recursive: false }),
    rename: (files) => files.rename(FILE, 'file:///other'),
    setAttributes: (files) => files.setAttributes('file:///other', { mode: 0o600 }),
    createLink: (files) => files.createLink('file:///other', 'x'),
    replaceFile: (files) => files.replaceFile('file:///other', [], { atomic: false }),
  };

  test.each(Object.keys(changes))('are not shared across a %s', async (change) => {
    const { server, files } = setUp(['fsRename', 'fsAttributes', 'fileWriteStreaming']);
    server.answerAnything();
    const answer = server.hold('fs/getMetadata');
    const before = files.getMetadata(FILE);
    const changed = changes[change]!(files);
    const during = files.getMetadata(FILE);
    await changed;
    const after = files.getMetadata(FILE);
    answer(METADATA);
    await Promise.all([before, during, after]);
    expect(server.params('fs/getMetadata')).toHaveLength(3);
  });
});

describe('readFileStream', () => {
  test('reads to the end of the file and closes it', async () => {
    const { server, files } = setUp();
    server.answer('fs/open', { handleId: 'h' });
    server.answerInTurn('fs/readBlock', [
      { chunk: base64(FILE_BLOCK_BYTES), eof: false },
      { chunk: base64(10), eof: true },
    ]);
    server.answer('fs/close', {});
    expect(await collect(files.readFileStream(FILE))).toEqual([FILE_BLOCK_BYTES, 10]);
    const [open] = server.params('fs/open') as { handleId: string }[];
    expect(open).toEqual({ path: FILE, handleId: expect.stringMatching(/^[0-9a-f]{32}$/) });
    const { handleId } = open!;
    expect(server.params('fs/readBlock')).toEqual([
      { handleId, offset: 0, len: FILE_BLOCK_BYTES },
      { handleId, offset: FILE_BLOCK_BYTES, len: FILE_BLOCK_BYTES },
      { handleId, offset: 2 * FILE_BLOCK_BYTES, len: FILE_BLOCK_BYTES },
    ]);
    expect(server.params('fs/close')).toEqual([{ handleId }]);
  });

  test('reads ahead of the reader by a limited number of blocks', async () => {
    const { server, files } = setUp();
    server.answerAnything();
    server.answer('fs/readBlock', { chunk: base64(FILE_BLOCK_BYTES), eof: false });
    const blocks = files.readFileStream(FILE);
    const requested: number[] = [];
    for (let read = 0; read < 4; read++) {
      await blocks.next();
      requested.push(server.params('fs/readBlock').length - read);
    }
    expect(requested).toEqual([1, 2, FILE_BLOCKS_IN_FLIGHT, FILE_BLOCKS_IN_FLIGHT]);
    await blocks.return();
    expect(server.params('fs/close')).toHaveLength(1);
  });

  test.each([
    ['too large', { chunk: base64(FILE_BLOCK_BYTES + 1), eof: false }],
    ['empty and not the last', { chunk: '', eof: false }],
    ['too short and not the last', { chunk: base64(FILE_BLOCK_BYTES - 1), eof: false }],
    ['not base64', { chunk: '*', eof: true }],
  ])('rejects a block that is %s with invalidData', async (_name, block) => {
    const { server, files } = setUp();
    server.answerAnything();
    server.answer('fs/readBlock', block);
    await expect(collect(files.readFileStream(FILE))).rejects.toMatchObject({ kind: 'invalidData' });
    expect(server.params('fs/close')).toHaveLength(1);
  });

  test('yields nothing for an empty file', async () => {
    const { server, files } = setUp();
    server.answerAnything();
    server.answer('fs/readBlock', { chunk: '', eof: true });
    expect(await collect(files.readFileStream(FILE))).toEqual([]);
  });

  test('closes the file without waiting when the reader leaves early', async () => {
    const { server, files } = setUp();
    server.answerAnything();
    server.hold('fs/close');
    server.answer('fs/readBlock', { chunk: base64(FILE_BLOCK_BYTES), eof: false });
    for await (const _block of files.readFileStream(FILE)) break;
    expect(server.params('fs/close')).toHaveLength(1);
    expect(server.params('fs/readBlock')).toHaveLength(1);
  });

  test('does not wait for the close after the last block', async () => {
    const { server, files } = setUp();
    server.answerAnything();
    server.hold('fs/close');
    server.answer('fs/readBlock', { chunk: base64(3), eof: true });
    expect(await collect(files.readFileStream(FILE, { timeoutMs: 5 }))).toEqual([3]);
    expect(server.params('fs/close')).toHaveLength(1);
  });

  test('reports brokenPipe when the handle is gone, because the file may exist', async () => {
    const { server, files } = setUp();
    server.answerAnything();
    server.refuse('fs/readBlock', answered(-32004, 'unknown file handle'));
    await expect(collect(files.readFileStream(FILE))).rejects.toMatchObject({ kind: 'brokenPipe' });
  });

  test.each([
    ['refused', answered(-32004, 'no'), 0],
    ['abandoned', new ClientError('timeout', 'no'), 1],
  ])('closes the file exactly when needed after an open that was %s', async (_name, error, closes) => {
    const { server, files } = setUp();
    server.answerAnything();
    server.refuse('fs/open', error);
    await expect(collect(files.readFileStream(FILE))).rejects.toMatchObject({ message: 'no' });
    expect(server.params('fs/close')).toHaveLength(closes);
  });
});

describe('missing capabilities', () => {
  test.each<[string, string[], (files: RemoteFileSystem) => Promise<unknown>, string]>([
    ['rename', [], (files) => files.rename(FILE, FILE), 'fsRename'],
    ['list', [], (files) => files.list([FILE]), 'fsAttributes'],
    ['setAttributes', [], (files) => files.setAttributes(FILE, {}), 'fsAttributes'],
    ['createLink', [], (files) => files.createLink(FILE, 'x'), 'fsAttributes'],
    ['search', [], (files) => files.search(FILE, 'x'), 'fsSearch'],
    ['watch', [], (files) => files.watch(FILE), 'fsWatch'],
    ['replaceFile', [], (files) => files.replaceFile(FILE, [], { atomic: false }), 'fileWriteStreaming'],
    ['atomic replaceFile', ['fileWriteStreaming'], (files) => files.replaceFile(FILE, []), 'fsAtomicReplace'],
    [
      'replaceFile with attributes',
      ['fileWriteStreaming', 'fsAtomicReplace'],
      (files) => files.replaceFile(FILE, [], { attributes: { mode: 0o600 } }),
      'fsAttributes',
    ],
  ])('make %s unsupported', async (_name, capabilities, attempt, needed) => {
    const { server, files } = setUp(capabilities);
    await expect(attempt(files)).rejects.toMatchObject({
      kind: 'unsupported',
      hint: expect.stringContaining(needed),
    });
    expect(server.calls).toEqual([]);
  });

  test('search passes on every option', async () => {
    const { server, files } = setUp(['fsSearch']);
    const found = { matches: [], truncated: null, engine: 'builtin' };
    server.answer('fs/search', found);
    expect(await files.search(FILE, 'x', { literal: true, timeoutMs: 7 })).toEqual(found);
    expect(server.params('fs/search')).toEqual([{ path: FILE, pattern: 'x', literal: true, timeoutMs: 7 }]);
  });
});

describe('replaceFile', () => {
  const STREAMING = ['fileWriteStreaming', 'fsAtomicReplace'];

  function* chunks(...sizes: number[]): Generator<Uint8Array, void> {
    for (const size of sizes) yield new Uint8Array(size);
  }

  test('writes full blocks for any chunks', async () => {
    const { server, files } = setUp(STREAMING);
    server.answerAnything();
    await files.replaceFile(FILE, chunks(1, 0, 2 * FILE_BLOCK_BYTES, 5));
    expect(server.params('fs/open')).toMatchObject([{ path: FILE, mode: 'atomicReplace' }]);
    const writes = server.params('fs/writeBlock') as { offset: number; chunk: string }[];
    expect(writes.map(({ offset, chunk }) => [offset, Buffer.from(chunk, 'base64').length])).toEqual([
      [0, FILE_BLOCK_BYTES],
      [FILE_BLOCK_BYTES, FILE_BLOCK_BYTES],
      [2 * FILE_BLOCK_BYTES, 6],
    ]);
    expect(server.params('fs/close')).toHaveLength(1);
  });

  test('sends a limited number of blocks before the first is answered', async () => {
    const { server, files } = setUp(STREAMING);
    server.answerAnything();
    const answer = server.hold('fs/writeBlock');
    const writing = files.replaceFile(FILE, chunks(20 * FILE_BLOCK_BYTES));
    await vi.waitFor(() => expect(server.params('fs/writeBlock')).toHaveLength(FILE_BLOCKS_IN_FLIGHT));
    await new Promise((resolve) => setImmediate(resolve));
    expect(server.params('fs/writeBlock')).toHaveLength(FILE_BLOCKS_IN_FLIGHT);
    expect(server.params('fs/close')).toEqual([]);
    answer({});
    await writing;
    expect(server.params('fs/writeBlock')).toHaveLength(20);
  });

  test('discards the new file when one of several blocks is refused', async () => {
    const { server, files } = setUp(STREAMING);
    server.answerAnything();
    server.refuse('fs/writeBlock', answered(-32603, 'No space left on device'));
    const writing = files.replaceFile(FILE, chunks(3 * FILE_BLOCK_BYTES));
    await expect(writing).rejects.toThrow('No space left on device');
    expect(server.params('fs/close')).toMatchObject([{ discard: true }]);
  });

  test('opens the file for writing in place without atomic', async () => {
    const { server, files } = setUp(STREAMING);
    server.answerAnything();
    await files.replaceFile(FILE, chunks(), { atomic: false });
    expect(server.params('fs/open')).toMatchObject([{ mode: 'replace' }]);
    expect(server.params('fs/writeBlock')).toEqual([]);
  });

  test('keeps the old file when the content fails, by discarding the new one', async () => {
    const { server, files } = setUp(STREAMING);
    server.answerAnything();
    async function* failing(): AsyncGenerator<Uint8Array, void> {
      yield new Uint8Array(FILE_BLOCK_BYTES);
      throw new Error('the source broke');
    }
    await expect(files.replaceFile(FILE, failing())).rejects.toThrow('the source broke');
    expect(server.params('fs/close')).toMatchObject([{ discard: true }]);
    await expect(files.replaceFile(FILE, failing(), { atomic: false })).rejects.toThrow('the source broke');
    expect(server.params('fs/close')[1]).not.toHaveProperty('discard');
  });

  test('rejects at its timeout even if the server does not answer', async () => {
    const { server, files } = setUp(STREAMING);
    server.answerAnything();
    server.refuse('fs/writeBlock', new ClientError('timeout', 'took too long'));
    server.hold('fs/close');
    const replacing = files.replaceFile(FILE, chunks(1), { timeoutMs: 5 });
    await expect(replacing).rejects.toMatchObject({ kind: 'timeout' });
    expect(server.params('fs/close')).toMatchObject([{ discard: true }]);
  });

  test('waits for the discard when it is aborted and the server answers', async () => {
    const { server, files } = setUp(STREAMING);
    server.answerAnything();
    server.refuse('fs/writeBlock', answered(-32603, 'disk full'));
    const close = server.hold('fs/close');
    let over = false;
    const replacing = files.replaceFile(FILE, chunks(1)).catch(() => {
      over = true;
    });
    await waitFor('the file to be closed', () => server.params('fs/close').length === 1);
    expect(over).toBe(false);
    close({});
    await replacing;
    expect(over).toBe(true);
  });

  test('fails when closing fails', async () => {
    const { server, files } = setUp(STREAMING);
    server.answerAnything();
    server.refuse('fs/close', answered(-32603, 'disk full'));
    await expect(files.replaceFile(FILE, chunks(1))).rejects.toMatchObject({ message: 'disk full' });
  });
});
