import { chmod, mkdir, rename, rm, rmdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { waitFor } from '../../../support/wait-for.ts';
import { makeFile, TreeScene } from './tree-fixture.ts';
import { inotifyWatches } from './watched-copy.ts';

let scene: TreeScene;
let root: string;
let outside: string;
beforeEach(async () => {
  scene = await TreeScene.open();
  root = scene.root;
  outside = scene.outside;
});
afterEach(() => scene.close());

describe('what is told', () => {
  test('files that come, change and go', async () => {
    await makeFile(root, 'old');
    const { copy } = await scene.follow(root);
    await writeFile(join(root, 'new'), 'x');
    await copy.heard('created new');
    await writeFile(join(root, 'old'), 'y');
    await copy.heard('modified old');
    await rm(join(root, 'old'));
    await copy.heard('deleted old');
    expect(copy.misfits).toEqual([]);
  });

  test('changes of one file within the time that they gather', async () => {
    await makeFile(root, 'changed-and-removed');
    await makeFile(root, 'removed-and-made');
    await makeFile(root, 'becomes-directory');
    const { copy } = await scene.follow(root, { debounceMs: 300 });
    await writeFile(join(root, 'made-and-changed'), '1');
    await writeFile(join(root, 'made-and-changed'), '2');
    await writeFile(join(root, 'made-and-removed'), '1');
    await rm(join(root, 'made-and-removed'));
    await writeFile(join(root, 'changed-and-removed'), '2');
    await rm(join(root, 'changed-and-removed'));
    await rm(join(root, 'removed-and-made'));
    await writeFile(join(root, 'removed-and-made'), '2');
    await rm(join(root, 'becomes-directory'));
    await mkdir(join(root, 'becomes-directory'));
    await waitFor('the changes', () => copy.told.length > 0);
    expect(copy.told.toSorted()).toEqual([
      'created becomes-directory',
      'created made-and-changed',
      'deleted becomes-directory',
      'deleted changed-and-removed',
      'modified removed-and-made',
    ]);
    expect(copy.told.indexOf('deleted becomes-directory')).toBeLessThan(
      copy.told.indexOf('created becomes-directory'),
    );
  });

  test('a file renamed over another is a deletion and a modification', async () => {
    await makeFile(root, 'a');
    await makeFile(root, 'b');
    const { copy } = await scene.follow(root);
    await rename(join(root, 'a'), join(root, 'b'));
    await copy.heard('deleted a', 'modified b');
    expect(copy.told).toHaveLength(2);
  });

  test('a directory that is filled at once, and what happens in it later', async () => {
    const { copy } = await scene.follow(root);
    for (let i = 0; i < 20; i++) await makeFile(root, `a${i}`, 'b', 'c', 'd', 'file');
    await copy.settled();
    await writeFile(join(root, 'a7/b/c/d/file'), 'later');
    await copy.heard('modified a7/b/c/d/file');
    expect(copy.misfits).toEqual([]);
  });

  test('a directory moved in is known with all that it holds', async () => {
    const { copy } = await scene.follow(root);
    await makeFile(outside, 'box', 'deep', 'file');
    await rename(join(outside, 'box'), join(root, 'box'));
    await copy.heard('created box', 'created box/deep', 'created box/deep/file');
    await writeFile(join(root, 'box/deep/file'), 'later');
    await copy.heard('modified box/deep/file');
    expect(copy.misfits).toEqual([]);
  });

  test('a directory moved out is gone with all that it held, and not followed', async () => {
    await makeFile(root, 'box', 'deep', 'file');
    const { copy } = await scene.follow(root);
    await rename(join(root, 'box'), join(outside, 'box'));
    await copy.heard('deleted box/deep/file', 'deleted box/deep', 'deleted box');
    await writeFile(join(outside, 'box/deep/file'), 'later');
    await scene.mark(copy);
    expect(copy.told.filter((change) => change.startsWith('modified'))).toEqual([]);
    expect(copy.misfits).toEqual([]);
  });

  test('a renamed directory is followed under its new name', async () => {
    await makeFile(root, 'one', 'deep', 'file');
    const { copy } = await scene.follow(root);
    await rename(join(root, 'one'), join(root, 'two'));
    await copy.heard('created two/deep/file', 'deleted one/deep/file');
    copy.forgetTold();
    await writeFile(join(root, 'two/deep/file'), 'later');
    await copy.heard('modified two/deep/file');
    expect(copy.told).toEqual(['modified two/deep/file']);
    expect(copy.misfits).toEqual([]);
  });

  test('a directory put in the place of another: its files are others', async () => {
    await makeFile(root, 'box', 'deep', 'same');
    await makeFile(root, 'box', 'deep', 'old');
    await makeFile(outside, 'box', 'deep', 'same');
    await makeFile(outside, 'box', 'deep', 'new');
    const { copy } = await scene.follow(root, { debounceMs: 100 });
    await rename(join(root, 'box'), join(outside, 'away'));
    await rename(join(outside, 'box'), join(root, 'box'));
    await copy.heard(
      'modified box',
      'deleted box/deep/old',
      'modified box/deep/same',
      'created box/deep/new',
    );
    await writeFile(join(root, 'box/deep/new'), 'later');
    await copy.heard('modified box/deep/new');
    copy.forgetTold();
    await writeFile(join(outside, 'away/deep/same'), 'later');
    await scene.mark(copy);
    expect(copy.told).toHaveLength(1);
    expect(copy.misfits).toEqual([]);
  });

  test('a directory removed and made again is watched again', async () => {
    await mkdir(join(root, 'box'));
    const { copy } = await scene.follow(root, { debounceMs: 100 });
    await rmdir(join(root, 'box'));
    await mkdir(join(root, 'box'));
    await scene.mark(copy);
    await writeFile(join(root, 'box/file'), '');
    await copy.heard('created box/file');
    await copy.settled();
  });

  test('an entry with the name of its directory', async () => {
    await makeFile(root, 'twin', 'file');
    const { copy } = await scene.follow(root);
    await mkdir(join(root, 'twin/twin'));
    await writeFile(join(root, 'twin/twin/twin'), '');
    await copy.heard('created twin/twin/twin');
    await scene.mark(copy);
    expect(copy.told.filter((change) => change.includes('file'))).toEqual([]);
  });

  test('the attributes of a file count, those of a directory do not', async () => {
    await makeFile(root, 'box', 'file');
    const { copy } = await scene.follow(root);
    await chmod(join(root, 'box'), 0o700);
    await chmod(join(root, 'box/file'), 0o600);
    await copy.heard('modified box/file');
    await scene.mark(copy);
    expect(copy.told).toHaveLength(2);
  });

  test('a link to a directory is an entry and not entered', async () => {
    await makeFile(outside, 'file');
    const { copy } = await scene.follow(root);
    await symlink(outside, join(root, 'link'));
    await copy.heard('created link');
    await writeFile(join(outside, 'file'), 'later');
    await scene.mark(copy);
    expect(copy.told).toHaveLength(2);
  });

  test('names that are not UTF-8', async () => {
    const { copy } = await scene.follow(root);
    const directory = Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0xff, 0xfe])]);
    await mkdir(directory);
    await writeFile(Buffer.concat([directory, Buffer.from('/ü')]), '');
    await copy.heard('created \xff\xfe', 'created \xff\xfe/\xc3\xbc');
    await rm(directory, { recursive: true });
    await copy.heard('deleted \xff\xfe');
    expect(copy.misfits).toEqual([]);
  });
});

test('a watch keeps no inotify watch after it is closed', async () => {
  await makeFile(root, 'a', 'b', 'c');
  const before = await inotifyWatches();
  const { watch } = await scene.follow(root);
  expect(await inotifyWatches()).toBe(before + 4);
  watch.close();
  await waitFor('the watches to go', async () => (await inotifyWatches()) === before);
});
