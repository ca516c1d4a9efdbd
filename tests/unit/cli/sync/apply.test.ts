import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { LocalSide } from '../../../../src/cli/sync/local-side.ts';
import { Report } from '../../../../src/cli/sync/report.ts';
import { Sync } from '../../../../src/cli/sync/sync.ts';
import type { FileEntry } from '../../../../src/cli/sync/tree.ts';
import { nativePathOfText } from '../../../../src/files/native-path.ts';

const { signal } = new AbortController();
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'exec-server-sync-'));
  for (const name of ['source', 'destination']) mkdirSync(join(folder, name));
  writeFileSync(join(folder, 'source', 'file'), 'first');
  writeFileSync(join(folder, 'destination', 'file'), 'old');
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Synchronizes two local directories. Either side may be another one in the same place. */
async function synchronized(make: { source?: typeof LocalSide; destination?: typeof LocalSide }) {
  const at = (name: 'source' | 'destination') =>
    new (make[name] ?? LocalSide)(name, nativePathOfText(join(folder, name)), signal);
  const [source, destination] = [at('source'), at('destination')];
  await Promise.all([source.realRoot(), destination.realRoot()]);
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const report = new Report({ stdout, stderr }, { json: false, dryRun: false, watch: false });
  const options = { deletes: false, dryRun: false, excludes: [] };
  await new Sync({ source, destination, remote: destination }, options, report).all('start');
  expect(readdirSync(join(folder, 'destination'))).toEqual(['file']);
  const content = readFileSync(join(folder, 'destination', 'file'), 'utf8');
  return { content, stdout: String(stdout.read()), stderr: String(stderr.read() ?? '') };
}

/** A source whose file grows while it is read, a number of times. */
function growing(times: number): typeof LocalSide {
  let left = times;
  return class extends LocalSide {
    override async *read(path: string, entry: FileEntry): AsyncGenerator<Uint8Array, void> {
      for await (const block of super.read(path, entry)) {
        if (left-- > 0) appendFileSync(join(folder, 'source', 'file'), '+');
        yield block;
      }
    }
  };
}

/** A destination that reports a wrong hash a number of times, as if its disk had lost something. */
function corrupting(times: number): typeof LocalSide {
  let left = times;
  return class extends LocalSide {
    override async hash(paths: readonly string[]) {
      return left-- > 0 ? paths.map(() => 'wrong') : super.hash(paths);
    }
  };
}

test('copies a file again that has changed while it was copied', async () => {
  expect(await synchronized({ source: growing(2) })).toEqual({
    content: 'first++',
    stdout: '1 file copied (7 B)\n',
    stderr: '',
  });
});

test('reports a file that changes all the time, and keeps the old copy', async () => {
  expect(await synchronized({ source: growing(Number.POSITIVE_INFINITY) })).toEqual({
    content: 'old',
    stdout: '0 files copied, 1 failed\n',
    stderr: 'exec-server sync: file: it changes while it is copied\n',
  });
});

test('copies a file again whose copy has another hash', async () => {
  expect(await synchronized({ destination: corrupting(1) })).toMatchObject({ content: 'first', stderr: '' });
});

test('reports a file whose copy has another hash every time', async () => {
  expect(await synchronized({ destination: corrupting(3) })).toMatchObject({
    stdout: '0 files copied, 1 failed\n',
    stderr: 'exec-server sync: file: its copy differs from it; it may have changed meanwhile\n',
  });
});

/** Watches two local directories with --delete. The destination cannot write files while `fails.now` is true. */
async function watched() {
  const fails = { now: true };
  class Failing extends LocalSide {
    override async replaceFile(...args: Parameters<LocalSide['replaceFile']>) {
      if (fails.now) throw new Error('the disk is full');
      return super.replaceFile(...args);
    }
  }
  const source = new LocalSide('source', nativePathOfText(join(folder, 'source')), signal);
  const destination = new Failing('destination', nativePathOfText(join(folder, 'destination')), signal);
  await Promise.all([source.realRoot(), destination.realRoot()]);
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const report = new Report({ stdout, stderr }, { json: false, dryRun: false, watch: false });
  const options = { deletes: true, dryRun: false, excludes: [] };
  const sync = new Sync({ source, destination, remote: destination }, options, report);
  const change = async (...paths: string[]) => {
    const changes = new Map(paths.map((path) => [path, { isNew: true }]));
    await sync.changed({ changes, overflow: false });
    return { stdout: String(stdout.read()), stderr: String(stderr.read() ?? '') };
  };
  return { change, fails };
}

const destinationHas = () => readdirSync(join(folder, 'destination'), { recursive: true }).sort();

test('a rename whose copy fails deletes nothing, and the next pass completes it', async () => {
  const { change, fails } = await watched();
  renameSync(join(folder, 'source', 'file'), join(folder, 'source', 'renamed'));
  expect(await change('file', 'renamed')).toEqual({
    stdout: '0 files copied, 1 only in the destination, 1 failed\n',
    stderr:
      'exec-server sync: renamed: the disk is full\n' +
      'exec-server sync: deleted nothing, because something failed; 1 entry to delete stays until the next pass\n',
  });
  expect(destinationHas()).toEqual(['file']);
  fails.now = false;
  mkdirSync(join(folder, 'source', 'other'));
  expect(await change('other')).toEqual({
    stdout: '1 file copied (5 B), 1 directory created, 1 deleted\n',
    stderr: '',
  });
  expect(destinationHas()).toEqual(['other', 'renamed']);
});

test('a directory that gives way to a file stays until its content has been copied to its new name', async () => {
  const { change, fails } = await watched();
  const at = (...names: string[]) => join(folder, ...names);
  for (const path of [at('source', 'moved'), at('destination', 'directory')]) mkdirSync(path);
  for (const path of [at('source', 'moved', 'x'), at('destination', 'directory', 'x')])
    writeFileSync(path, 'x');
  writeFileSync(at('source', 'directory'), 'now a file');
  const { stderr } = await change('moved', 'directory');
  expect(stderr).toBe(
    'exec-server sync: moved/x: the disk is full\n' +
      'exec-server sync: directory: it waits, because something else failed\n',
  );
  expect(destinationHas()).toEqual(['directory', 'directory/x', 'file', 'moved']);
  fails.now = false;
  await change('file');
  expect(destinationHas()).toEqual(['directory', 'file', 'moved', 'moved/x']);
});

test('a pass that is refused is repeated with the next one', async () => {
  const { change, fails } = await watched();
  fails.now = false;
  renameSync(join(folder, 'source', 'file'), join(folder, 'away'));
  await expect(change('file')).rejects.toThrow(/is empty, and --delete would delete everything/);
  expect(destinationHas()).toEqual(['file']);
  writeFileSync(join(folder, 'source', 'new'), '');
  await change('new');
  expect(destinationHas()).toEqual(['new']);
});
