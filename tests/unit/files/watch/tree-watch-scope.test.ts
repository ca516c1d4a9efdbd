import { rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { FileError } from '../../../../src/files/errors.ts';
import { makeFile, TreeScene } from './tree-fixture.ts';

let scene: TreeScene;
let root: string;
let outside: string;
beforeEach(async () => {
  scene = await TreeScene.open();
  root = scene.root;
  outside = scene.outside;
});
afterEach(() => scene.close());

describe('what is left out', () => {
  test('excluded files and trees, before and after they exist', async () => {
    await makeFile(root, 'node_modules', 'package', 'file');
    await makeFile(root, 'src', 'a.log');
    const { copy } = await scene.follow(root, {
      exclude: ['**/node_modules/**', '**/*.log', 'only/at/root/'],
    });
    await writeFile(join(root, 'node_modules/package/file'), 'x');
    await writeFile(join(root, 'src/a.log'), 'x');
    await makeFile(root, 'src', 'node_modules', 'package', 'file');
    await makeFile(root, 'only', 'at', 'root', 'file');
    await makeFile(root, 'src', 'kept');
    await scene.mark(copy);
    await copy.heard('created src/kept', 'created only/at');
    expect(copy.told.filter((change) => /node_modules|log|only\/at\//.test(change))).toEqual([]);
  });

  test('what lies deeper, when the watch is not recursive', async () => {
    await makeFile(root, 'box', 'file');
    const { copy } = await scene.follow(root, { recursive: false });
    await writeFile(join(root, 'box/file'), 'x');
    await makeFile(root, 'box', 'new');
    await makeFile(root, 'other', 'file');
    await scene.mark(copy);
    expect(copy.told.filter((change) => !change.includes('mark'))).toEqual(['created other']);
    await rm(join(root, 'box'), { recursive: true });
    await copy.heard('deleted box');
  });

  test.each([
    ['an empty glob', { exclude: [''] }, 'glob `` is empty'],
    ['too many globs', { exclude: Array<string>(257).fill('a') }, 'globs stand for more than 256 patterns'],
    ['a long glob', { exclude: ['a'.repeat(4_097)] }, 'a glob is longer than 4096 characters'],
    ['a long debounce', { debounceMs: 5001 }, 'debounceMs may be at most 5000, not 5001'],
  ])('%s is refused', async (_, options, message) => {
    await expect(scene.follow(root, options)).rejects.toMatchObject({ kind: 'refused', message });
  });
});

describe('the root', () => {
  test('a single file: changes, replacement, removal and return, and nothing beside it', async () => {
    const file = await makeFile(root, 'file');
    const { copy } = await scene.follow(file);
    await makeFile(root, 'other');
    await writeFile(file, 'x');
    await copy.heard('modified .');
    copy.forgetTold();
    await rename(await makeFile(root, 'next'), file);
    await copy.heard('modified .');
    await rm(file);
    await copy.heard('deleted .');
    await writeFile(file, 'again');
    await copy.heard('created .');
    expect(copy.misfits).toEqual([]);
  });

  test('a link to a file elsewhere', async () => {
    const file = await makeFile(outside, 'file');
    await symlink(file, join(root, 'link'));
    const { copy } = await scene.follow(join(root, 'link'));
    await writeFile(file, 'x');
    await copy.heard('modified .');
    copy.forgetTold();
    await rename(await makeFile(outside, 'next'), file);
    await copy.heard('modified .');
  });

  test('a link to a directory is followed under its own name', async () => {
    await symlink(outside, join(root, 'link'));
    const { copy } = await scene.follow(join(root, 'link'));
    await makeFile(outside, 'file');
    await copy.heard('created file');
  });

  test('a directory that goes and comes back', async () => {
    await makeFile(root, 'box', 'file');
    const { copy } = await scene.follow(root);
    await rm(root, { recursive: true });
    await copy.heard('deleted box/file', 'deleted box', 'deleted .');
    await makeFile(root, 'again');
    await copy.heard('created .', 'created again');
    await writeFile(join(root, 'again'), 'x');
    await copy.heard('modified again');
    expect(copy.misfits).toEqual([]);
  });

  test('an ancestor that is renamed away and back', async () => {
    const inner = join(root, 'inner');
    await makeFile(inner, 'file');
    const { copy } = await scene.follow(inner, {}, { rootCheckMs: 20 });
    await rename(scene.base, `${scene.base}-moved`);
    try {
      await copy.heard('deleted file', 'deleted .');
    } finally {
      await rename(`${scene.base}-moved`, scene.base);
    }
    await copy.heard('created .', 'created file');
    await writeFile(join(inner, 'file'), 'x');
    await copy.heard('modified file');
  });

  test('that does not exist is not found', async () => {
    const failure = await scene.follow(join(root, 'nothing')).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(FileError);
    expect(failure).toMatchObject({ kind: 'notFound', message: 'No such file or directory (os error 2)' });
  });
});
