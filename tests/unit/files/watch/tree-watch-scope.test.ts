import { chmod, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { FileError } from '../../../../src/files/errors.ts';
import { nativePathOfText } from '../../../../src/files/native-path.ts';
import { watchTree } from '../../../../src/files/watch/tree-watch.ts';
import { makeFile, OPTIONS, TreeFixture } from './tree-fixture.ts';

let fixture: TreeFixture;
let root: string;
let outside: string;
beforeEach(async () => {
  fixture = await TreeFixture.open();
  root = fixture.root;
  outside = fixture.outside;
});
afterEach(() => fixture.close());

describe('exclusions', () => {
  test('apply to files and trees, before and after they exist', async () => {
    await makeFile(root, 'node_modules', 'package', 'file');
    await makeFile(root, 'src', 'a.log');
    const { copy } = await fixture.follow(root, {
      exclude: ['**/node_modules/**', '**/*.log', 'only/at/root/'],
    });
    await writeFile(join(root, 'node_modules/package/file'), 'x');
    await writeFile(join(root, 'src/a.log'), 'x');
    await makeFile(root, 'src', 'node_modules', 'package', 'file');
    await makeFile(root, 'only', 'at', 'root', 'file');
    await makeFile(root, 'src', 'kept');
    await fixture.mark(copy);
    await copy.heard('created src/kept', 'created only/at');
    expect(copy.reported.filter((change) => /node_modules|log|only\/at\//.test(change))).toEqual([]);
  });

  test('of deeper entries when the watch is not recursive', async () => {
    await makeFile(root, 'box', 'file');
    const { copy } = await fixture.follow(root, { recursive: false });
    await writeFile(join(root, 'box/file'), 'x');
    await makeFile(root, 'box', 'new');
    await makeFile(root, 'other', 'file');
    await fixture.mark(copy);
    expect(copy.reported.filter((change) => !change.includes('mark'))).toEqual(['created other']);
    await rm(join(root, 'box'), { recursive: true });
    await copy.heard('deleted box');
  });

  test.each([
    ['an empty glob', { exclude: [''] }, 'glob `` is empty'],
    ['too many globs', { exclude: Array<string>(257).fill('a') }, 'globs stand for more than 256 patterns'],
    ['a long glob', { exclude: ['a'.repeat(4_097)] }, 'a glob is longer than 4096 characters'],
    ['a long debounce', { debounceMs: 5001 }, 'debounceMs may be at most 5000, not 5001'],
  ])('reject %s', async (_, options, message) => {
    await expect(fixture.follow(root, options)).rejects.toMatchObject({ kind: 'refused', message });
  });
});

describe('the root', () => {
  test('can be a single file, which is changed, replaced, removed and created again', async () => {
    const file = await makeFile(root, 'file');
    const { copy } = await fixture.follow(file);
    await makeFile(root, 'other');
    await writeFile(file, 'x');
    await copy.heard('modified .');
    copy.forgetReported();
    await rename(await makeFile(root, 'next'), file);
    await copy.heard('modified .');
    await rm(file);
    await copy.heard('deleted .');
    await writeFile(file, 'again');
    await copy.heard('created .');
    expect(copy.contradictions).toEqual([]);
  });

  test('can be a link to a file elsewhere', async () => {
    const file = await makeFile(outside, 'file');
    await symlink(file, join(root, 'link'));
    const { copy } = await fixture.follow(join(root, 'link'));
    await writeFile(file, 'x');
    await copy.heard('modified .');
    copy.forgetReported();
    await rename(await makeFile(outside, 'next'), file);
    await copy.heard('modified .');
  });

  test('can be a link to a directory, which is followed under its own name', async () => {
    await symlink(outside, join(root, 'link'));
    const { copy } = await fixture.follow(join(root, 'link'));
    await makeFile(outside, 'file');
    await copy.heard('created file');
  });

  test('can be a directory that is removed and created again', async () => {
    await makeFile(root, 'box', 'file');
    const { copy } = await fixture.follow(root);
    await rm(root, { recursive: true });
    await copy.heard('deleted box/file', 'deleted box', 'deleted .');
    await makeFile(root, 'again');
    await copy.heard('created .', 'created again');
    await writeFile(join(root, 'again'), 'x');
    await copy.heard('modified again');
    expect(copy.contradictions).toEqual([]);
  });

  test('can have an ancestor that is renamed away and back', async () => {
    const inner = join(root, 'inner');
    await makeFile(inner, 'file');
    const { copy } = await fixture.follow(inner, {}, { rootCheckMs: 20 });
    await rename(fixture.base, `${fixture.base}-moved`);
    try {
      await copy.heard('deleted file', 'deleted .');
    } finally {
      await rename(`${fixture.base}-moved`, fixture.base);
    }
    await copy.heard('created .', 'created file');
    await writeFile(join(inner, 'file'), 'x');
    await copy.heard('modified file');
  });

  test('is reported as not found when it does not exist', async () => {
    const failure = await fixture.follow(join(root, 'nothing')).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(FileError);
    expect(failure).toMatchObject({ kind: 'notFound', message: 'No such file or directory (os error 2)' });
  });
});

/** The user of a server that is not root. */
const NOBODY = 65534;

test('a directory that may not be listed is not watched', async () => {
  const locked = join(root, 'locked');
  await mkdir(locked, { mode: 0 });
  await chmod(fixture.base, 0o755);
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid!(NOBODY);
  try {
    const watching = watchTree(nativePathOfText(locked), OPTIONS, () => {});
    await expect(watching).rejects.toMatchObject({
      kind: 'refused',
      message: 'Permission denied (os error 13)',
    });
  } finally {
    if (isRoot) process.seteuid!(0);
    await chmod(locked, 0o700);
  }
});
