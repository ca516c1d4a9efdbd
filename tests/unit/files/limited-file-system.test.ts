import { expect, test } from 'vitest';
import { Semaphore } from '../../../src/base/semaphore.ts';
import type { FileSystem, OpenFile } from '../../../src/files/file-system.ts';
import { limitFileSystem } from '../../../src/files/limited-file-system.ts';
import { nativePathOfText } from '../../../src/files/native-path.ts';

const PATH = nativePathOfText('/f');
const FOLLOW = { followSymlinks: true };

/** A file system whose operations end when the test says so. */
class HangingFiles {
  readonly begun: string[] = [];
  readonly #ends: (() => void)[] = [];
  waiting: { onWait(): void } | null = null;

  async hang(name: string): Promise<void> {
    this.begun.push(name);
    await new Promise<void>((resolve) => this.#ends.push(resolve));
  }

  async endFirst(): Promise<void> {
    this.#ends.shift()?.();
    await turn();
  }

  get fileSystem(): FileSystem {
    const file: OpenFile = {
      read: () => this.hang('block').then(() => Buffer.alloc(0)),
      write: () => this.hang('block'),
      close: () => this.hang('close'),
      discard: () => this.hang('discard'),
    };
    const known: Partial<FileSystem> = {
      canonicalize: (path) => this.hang('canonicalize').then(() => path),
      remove: () => this.hang('remove'),
      open: async () => file,
      readFile: async () => ({
        size: 1,
        read: () => this.hang('content').then(() => 0),
        close: () => this.hang('content closed'),
      }),
      writeFile: (_path, _bytes, _options, waiting) => {
        this.waiting = waiting;
        return this.hang('writeFile');
      },
    };
    return known as FileSystem;
  }
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

function limited(count: number) {
  const files = new HangingFiles();
  const end = new AbortController();
  return {
    files,
    end,
    fileSystem: limitFileSystem(
      files.fileSystem,
      { slots: new Semaphore(count), trees: new Semaphore(1) },
      end.signal,
    ),
  };
}

test('an operation waits for a free slot', async () => {
  const { files, fileSystem } = limited(2);
  for (let index = 0; index < 3; index++) void fileSystem.canonicalize(PATH);
  await turn();
  expect(files.begun).toHaveLength(2);
  await files.endFirst();
  expect(files.begun).toHaveLength(3);
});

test('tree operations have fewer slots and leave the others free', async () => {
  const { files, fileSystem } = limited(8);
  void fileSystem.remove(PATH, { ...FOLLOW, recursive: true, force: true });
  void fileSystem.remove(PATH, { ...FOLLOW, recursive: true, force: true });
  void fileSystem.canonicalize(PATH);
  await turn();
  expect(files.begun.sort()).toEqual(['canonicalize', 'remove']);
  await files.endFirst();
  await files.endFirst();
  expect(files.begun.sort()).toEqual(['canonicalize', 'remove', 'remove']);
});

test('blocks and closes of open files take slots, discarding does not', async () => {
  const { files, fileSystem } = limited(1);
  const file = await fileSystem.open(PATH, 'replace');
  void file.write(0, Buffer.alloc(1));
  void file.close();
  void file.discard();
  await turn();
  expect(files.begun).toEqual(['discard', 'block']);
});

test('a write that waits for a FIFO reader releases its slot', async () => {
  const { files, fileSystem } = limited(1);
  let waits = 0;
  const waiting = { signal: new AbortController().signal, onWait: () => waits++ };
  void fileSystem.writeFile(PATH, Buffer.alloc(0), FOLLOW, waiting);
  void fileSystem.canonicalize(PATH);
  await turn();
  expect(files.begun).toEqual(['writeFile']);
  files.waiting?.onWait();
  files.waiting?.onWait();
  await turn();
  expect(waits).toBe(2);
  void fileSystem.canonicalize(PATH);
  await turn();
  expect(files.begun).toEqual(['writeFile', 'canonicalize']);
});

test('the end of the connection rejects waiting operations', async () => {
  const { files, end, fileSystem } = limited(1);
  void fileSystem.canonicalize(PATH);
  const waiting = fileSystem.canonicalize(PATH);
  end.abort(new Error('gone'));
  await expect(waiting).rejects.toThrow('gone');
  expect(files.begun).toEqual(['canonicalize']);
});

test('discards a file whose close got no slot before the end of the connection', async () => {
  const { files, end, fileSystem } = limited(1);
  const file = await fileSystem.open(PATH, 'atomicReplace');
  void fileSystem.canonicalize(PATH);
  const closed = expect(file.close()).rejects.toThrow('gone');
  end.abort(new Error('gone'));
  await turn();
  expect(files.begun).toEqual(['canonicalize', 'discard']);
  await files.endFirst();
  await files.endFirst();
  await closed;
});

test('the first read of content takes a slot, and close waits for reads in progress', async () => {
  const { files, fileSystem } = limited(1);
  const content = await fileSystem.readFile(PATH, FOLLOW);
  void fileSystem.canonicalize(PATH);
  await turn();
  const read = content.read(Buffer.alloc(1));
  const closed = content.close();
  await turn();
  expect(files.begun).toEqual(['canonicalize']);
  await files.endFirst();
  expect(files.begun).toEqual(['canonicalize', 'content']);
  await files.endFirst();
  await read;
  await turn();
  expect(files.begun).toEqual(['canonicalize', 'content', 'content closed']);
  await files.endFirst();
  await closed;
});

test('later reads of a response in progress need no slot', async () => {
  const { files, fileSystem } = limited(1);
  const content = await fileSystem.readFile(PATH, FOLLOW);
  const first = content.read(Buffer.alloc(1));
  await turn();
  await files.endFirst();
  await first;
  void fileSystem.canonicalize(PATH);
  void content.read(Buffer.alloc(1));
  await turn();
  expect(files.begun).toEqual(['content', 'content', 'canonicalize']);
});
