import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { FileError } from '../../../../src/files/errors.ts';
import type { FileSystem } from '../../../../src/files/file-system.ts';
import { LOCAL_FILE_SYSTEM } from '../../../../src/files/local/local-file-system.ts';
import type { NativePath } from '../../../../src/files/native-path.ts';
import { contentOf, FOLLOW, NO_FOLLOW, waitingForever } from './helper-fixture.ts';

type Operation = (files: FileSystem, at: (name: string) => NativePath) => Promise<unknown>;

/** The roots of the two trees. */
interface Place {
  at(name: string): NativePath;
}

/** Operations that must have the same effect and result through a helper and on local files. Each runs in two equal trees. */
export function sameAnswers(place: Place, open: () => Promise<FileSystem>): void {
  describe('operations with the same result as without a helper', () => {
    test.each(OPERATIONS)('%s', async (name, operate) => {
      const outcomes = [];
      const opened = await open();
      for (const files of [LOCAL_FILE_SYSTEM, opened]) {
        const root = files === opened ? 'other' : 'local';
        populate(place.at(root), /fifo/i.test(name));
        const at = (name: string) => place.at(join(root, name));
        const neutral = (value: unknown) => JSON.stringify(value)?.replaceAll(place.at(root), 'ROOT');
        const said = await operate(files, at).then(
          (value) => `done: ${neutral(value)}`,
          (error: unknown) => {
            if (!(error instanceof FileError)) throw error;
            return `${error.kind} ${error.errno} ${neutral(error.message)}`;
          },
        );
        outcomes.push({ said, tree: treeAt(place.at(root)) });
      }
      expect(outcomes[1]).toEqual(outcomes[0]);
    });
  });
}

/** Files, directories, and links to a file, to a directory, to nothing and to themselves. */
function populate(root: string, withFifo: boolean): void {
  mkdirSync(join(root, 'dir/sub'), { recursive: true });
  mkdirSync(join(root, 'empty'));
  writeFileSync(join(root, 'a.txt'), 'hello');
  writeFileSync(join(root, 'dir/sub/f'), 'x');
  symlinkSync('a.txt', join(root, 'lfile'));
  symlinkSync('dir', join(root, 'ldir'));
  symlinkSync('nowhere', join(root, 'dangling'));
  symlinkSync('loop', join(root, 'loop'));
  if (withFifo) execFileSync('mkfifo', [join(root, 'fifo')]);
}

const TEXT = Buffer.from('text');
const WALK = {
  maxDepth: 3,
  maxDirectories: 100,
  maxEntries: 100,
  followDirectorySymlinks: true,
  pruneHiddenDirectories: true,
};
const signal = new AbortController().signal;

const OPERATIONS: [string, Operation][] = [
  ...['a.txt', 'lfile', 'dir', 'missing', 'dangling', 'loop', 'fifo', 'a.txt/x', 'dir/sub/f'].flatMap(
    (name): [string, Operation][] => [
      [`readFile ${name}`, async (files, at) => String(await contentOf(files, at(name)))],
      [
        `readFile ${name} without links`,
        async (files, at) => {
          const content = await files.readFile(at(name), NO_FOLLOW);
          await content.close();
          return content.size;
        },
      ],
      [`metadata of ${name}`, async (files, at) => withoutTimes(await files.getMetadata(at(name), FOLLOW))],
      [
        `metadata of ${name} without links`,
        async (files, at) => withoutTimes(await files.getMetadata(at(name), NO_FOLLOW)),
      ],
      [`canonicalize ${name}`, (files, at) => files.canonicalize(at(name))],
      [`readDirectory ${name}`, async (files, at) => sorted(await files.readDirectory(at(name)))],
      [
        `remove ${name}`,
        (files, at) => files.remove(at(name), { ...FOLLOW, recursive: false, force: false }),
      ],
      [
        `remove ${name} by force`,
        (files, at) => files.remove(at(name), { ...FOLLOW, recursive: true, force: true }),
      ],
      [
        `createDirectory ${name}`,
        (files, at) => files.createDirectory(at(name), { ...FOLLOW, recursive: false }),
      ],
      [
        `createDirectory ${name}/x/y`,
        (files, at) => files.createDirectory(at(`${name}/x/y`), { ...FOLLOW, recursive: true }),
      ],
      [`copy ${name}`, (files, at) => files.copy(at(name), at('new'), { recursive: false })],
      [`copy ${name} as a tree`, (files, at) => files.copy(at(name), at('empty/new'), { recursive: true })],
      [`rename ${name}`, (files, at) => files.rename(at(name), at('new'))],
      [`rename to ${name}`, (files, at) => files.rename(at('dir/sub/f'), at(name))],
      [`open ${name}`, async (files, at) => await readAll(files, at(name))],
    ],
  ),
  ...['a.txt', 'lfile', 'dir', 'missing', 'dangling', 'loop', 'a.txt/x', 'nowhere/x'].flatMap(
    (name): [string, Operation][] => [
      [`writeFile ${name}`, (files, at) => files.writeFile(at(name), TEXT, FOLLOW, waitingForever())],
      [
        `writeFile ${name} without links`,
        (files, at) => files.writeFile(at(name), TEXT, NO_FOLLOW, waitingForever()),
      ],
      [`replace ${name}`, (files, at) => replace(files, at(name), 'replace')],
      [`replace ${name} atomically`, (files, at) => replace(files, at(name), 'atomicReplace')],
      [
        `drop a replacement of ${name}`,
        async (files, at) => {
          const file = await files.open(at(name), 'atomicReplace');
          await file.write(0, TEXT);
          await file.discard();
        },
      ],
      [`copy a file to ${name}`, (files, at) => files.copy(at('dir/sub/f'), at(name), { recursive: false })],
    ],
  ),
  ['copy a tree into itself', (files, at) => files.copy(at('dir'), at('dir/sub/new'), { recursive: true })],
  ['copy a tree over a tree', (files, at) => files.copy(at('dir'), at('ldir'), { recursive: true })],
  ['copy a tree into another', (files, at) => files.copy(at('dir'), at('empty'), { recursive: true })],
  [
    'copy a tree with a FIFO in it',
    async (files, at) => {
      renameSync(at('fifo'), at('dir/fifo'));
      await files.copy(at('dir'), at('new'), { recursive: true });
    },
  ],
  ['walk', (files, at) => files.walk(at('.'), WALK, signal)],
  ['walk little', (files, at) => files.walk(at('.'), { ...WALK, maxEntries: 3 }, signal)],
  ['walk without links', (files, at) => files.walk(at('.'), { ...WALK, ...NO_FOLLOW }, signal)],
  ['walk nothing', (files, at) => files.walk(at('missing'), WALK, signal)],
  ['walk too far', (files, at) => files.walk(at('.'), { ...WALK, maxDepth: 1_000 }, signal)],
  [
    'write a read-only file',
    async (files, at) => {
      const file = await files.open(at('a.txt'), 'read');
      try {
        await file.write(0, TEXT);
      } finally {
        await file.close();
      }
    },
  ],
  [
    'read far after the end',
    async (files, at) => {
      const file = await files.open(at('a.txt'), 'read');
      try {
        return [await file.read(3, 10), await file.read(100, 1), await file.read(2 ** 62, 1)].map(String);
      } finally {
        await file.close();
      }
    },
  ],
  [
    'keep the mode of a copied file',
    async (files, at) => {
      chmodSync(at('a.txt'), 0o751);
      await files.copy(at('a.txt'), at('new'), { recursive: false });
    },
  ],
  [
    'read a directory with many entries',
    async (files, at) => {
      for (let index = 0; index < 3_000; index++) writeFileSync(at(`empty/${'n'.repeat(150)}${index}`), '');
      return sorted(await files.readDirectory(at('empty')));
    },
  ],
];

async function readAll(files: FileSystem, path: NativePath): Promise<string> {
  const file = await files.open(path, 'read');
  try {
    return String(await file.read(0, 100));
  } finally {
    await file.close();
  }
}

async function replace(
  files: FileSystem,
  path: NativePath,
  mode: 'replace' | 'atomicReplace',
): Promise<void> {
  const file = await files.open(path, mode);
  await file.write(2, TEXT);
  await file.write(0, Buffer.from('te'));
  await file.close();
}

function withoutTimes({
  createdAtMs,
  modifiedAtMs,
  ...rest
}:
  | Record<string, unknown>
  | (object & {
      createdAtMs?: number;
      modifiedAtMs?: number;
    })): unknown {
  expect(Number(createdAtMs)).toBeGreaterThan(0);
  expect(Number(modifiedAtMs)).toBeGreaterThan(0);
  return rest;
}

function sorted<T extends { readonly name: string }>(entries: readonly T[]): T[] {
  return entries.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** Everything below a directory, with modes and contents; temporary names do not matter. */
function treeAt(root: string): string[] {
  const names = readdirSync(root, { recursive: true, encoding: 'utf8' }).sort();
  return names.map((name) => {
    const path = join(root, name);
    const stats = lstatSync(path);
    const content = stats.isSymbolicLink()
      ? readlinkSync(path)
      : stats.isFile()
        ? readFileSync(path, 'latin1')
        : '';
    return `${name} ${stats.mode.toString(8)} ${content}`;
  });
}
