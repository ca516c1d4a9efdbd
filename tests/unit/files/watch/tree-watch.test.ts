import { chmod, mkdir, rename, rm, rmdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Semaphore } from '../../../../src/base/semaphore.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { makeFile, TreeFixture } from './tree-fixture.ts';
import { inotifyWatches } from './watched-copy.ts';

/** Lets the next caller in only after the one behind it has finished. */
class ReversedSlots extends Semaphore {
  holdsNext = false;
  #letIn: (() => void) | null = null;

  override async acquire(signal?: AbortSignal): Promise<void> {
    if (this.holdsNext) {
      this.holdsNext = false;
      await new Promise<void>((resolve) => {
        this.#letIn = resolve;
      });
    }
    return super.acquire(signal);
  }

  override release(): void {
    super.release();
    this.#letIn?.();
    this.#letIn = null;
  }
}

let fixture: TreeFixture;
let root: string;
let outside: string;
beforeEach(async () => {
  fixture = await TreeFixture.open();
  root = fixture.root;
  outside = fixture.outside;
});
afterEach(() => fixture.close());

describe('watchTree reports', () => {
  test('files that are created, modified and removed', async () => {
    await makeFile(root, 'old');
    const { copy } = await fixture.follow(root);
    await writeFile(join(root, 'new'), 'x');
    await copy.heard('created new');
    await writeFile(join(root, 'old'), 'y');
    await copy.heard('modified old');
    await rm(join(root, 'old'));
    await copy.heard('deleted old');
    expect(copy.contradictions).toEqual([]);
  });

  test('several changes of one file as one', async () => {
    await makeFile(root, 'changed-and-removed');
    await makeFile(root, 'removed-and-made');
    await makeFile(root, 'becomes-directory');
    const { copy, together } = await fixture.follow(root);
    await together(async () => {
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
    });
    await waitFor('the changes', () => copy.reported.length > 0);
    expect(copy.reported.toSorted()).toEqual([
      'created becomes-directory',
      'created made-and-changed',
      'deleted becomes-directory',
      'deleted changed-and-removed',
      'modified removed-and-made',
    ]);
    expect(copy.reported.indexOf('deleted becomes-directory')).toBeLessThan(
      copy.reported.indexOf('created becomes-directory'),
    );
  });

  test('a file renamed over another as a deletion and a modification', async () => {
    await makeFile(root, 'a');
    await makeFile(root, 'b');
    const { copy } = await fixture.follow(root);
    await rename(join(root, 'a'), join(root, 'b'));
    await copy.heard('deleted a', 'modified b');
    expect(copy.reported).toHaveLength(2);
  });

  test('a directory that is filled immediately, and later changes in it', async () => {
    const { copy } = await fixture.follow(root);
    for (let i = 0; i < 20; i++) await makeFile(root, `a${i}`, 'b', 'c', 'd', 'file');
    await copy.settled();
    await writeFile(join(root, 'a7/b/c/d/file'), 'later');
    await copy.heard('modified a7/b/c/d/file');
    expect(copy.contradictions).toEqual([]);
  });

  test('a directory moved in, with everything in it', async () => {
    const { copy } = await fixture.follow(root);
    await makeFile(outside, 'box', 'deep', 'file');
    await rename(join(outside, 'box'), join(root, 'box'));
    await copy.heard('created box', 'created box/deep', 'created box/deep/file');
    await writeFile(join(root, 'box/deep/file'), 'later');
    await copy.heard('modified box/deep/file');
    expect(copy.contradictions).toEqual([]);
  });

  test('a directory moved out as deleted with everything in it, and does not follow it', async () => {
    await makeFile(root, 'box', 'deep', 'file');
    const { copy } = await fixture.follow(root);
    await rename(join(root, 'box'), join(outside, 'box'));
    await copy.heard('deleted box/deep/file', 'deleted box/deep', 'deleted box');
    await writeFile(join(outside, 'box/deep/file'), 'later');
    await fixture.mark(copy);
    expect(copy.reported.filter((change) => change.startsWith('modified'))).toEqual([]);
    expect(copy.contradictions).toEqual([]);
  });

  test('a renamed directory under its new name', async () => {
    await makeFile(root, 'one', 'deep', 'file');
    const { copy } = await fixture.follow(root);
    await rename(join(root, 'one'), join(root, 'two'));
    await copy.heard('created two/deep/file', 'deleted one/deep/file');
    copy.forgetReported();
    await writeFile(join(root, 'two/deep/file'), 'later');
    await copy.heard('modified two/deep/file');
    expect(copy.reported).toEqual(['modified two/deep/file']);
    expect(copy.contradictions).toEqual([]);
  });

  test('the files of a directory that replaces another as modified', async () => {
    await makeFile(root, 'box', 'deep', 'same');
    await makeFile(root, 'box', 'deep', 'old');
    await makeFile(outside, 'box', 'deep', 'same');
    await makeFile(outside, 'box', 'deep', 'new');
    const { copy, together } = await fixture.follow(root);
    await together(async () => {
      await rename(join(root, 'box'), join(outside, 'away'));
      await rename(join(outside, 'box'), join(root, 'box'));
    });
    await copy.heard(
      'modified box',
      'deleted box/deep/old',
      'modified box/deep/same',
      'created box/deep/new',
    );
    await writeFile(join(root, 'box/deep/new'), 'later');
    await copy.heard('modified box/deep/new');
    copy.forgetReported();
    await writeFile(join(outside, 'away/deep/same'), 'later');
    await fixture.mark(copy);
    expect(copy.reported).toHaveLength(1);
    expect(copy.contradictions).toEqual([]);
  });

  test('a replaced directory whose own check comes before the check of its name', async () => {
    await makeFile(root, 'box', 'same');
    await makeFile(outside, 'box', 'same');
    const slots = new ReversedSlots(8);
    const { copy, together } = await fixture.follow(root, {}, { slots });
    await together(async () => {
      await rename(join(root, 'box'), join(outside, 'away'));
      await rename(join(outside, 'box'), join(root, 'box'));
      slots.holdsNext = true;
    });
    await copy.heard('modified box', 'modified box/same');
    expect(slots.holdsNext).toBe(false);
    expect(copy.contradictions).toEqual([]);
  });

  test('changes in a directory that is removed and created again', async () => {
    await mkdir(join(root, 'box'));
    const { copy, together } = await fixture.follow(root);
    await together(async () => {
      await rmdir(join(root, 'box'));
      await mkdir(join(root, 'box'));
    });
    await fixture.mark(copy);
    await writeFile(join(root, 'box/file'), '');
    await copy.heard('created box/file');
    await copy.settled();
  });

  test('an entry with the name of its directory', async () => {
    await makeFile(root, 'twin', 'file');
    const { copy } = await fixture.follow(root);
    await mkdir(join(root, 'twin/twin'));
    await writeFile(join(root, 'twin/twin/twin'), '');
    await copy.heard('created twin/twin/twin');
    await fixture.mark(copy);
    expect(copy.reported.filter((change) => change.includes('file'))).toEqual([]);
  });

  test('attributes of files, but not of directories', async () => {
    await makeFile(root, 'box', 'file');
    const { copy } = await fixture.follow(root);
    await chmod(join(root, 'box'), 0o700);
    await chmod(join(root, 'box/file'), 0o600);
    await copy.heard('modified box/file');
    await fixture.mark(copy);
    expect(copy.reported).toHaveLength(2);
  });

  test('a link to a directory as an entry that is not entered', async () => {
    await makeFile(outside, 'file');
    const { copy } = await fixture.follow(root);
    await symlink(outside, join(root, 'link'));
    await copy.heard('created link');
    await writeFile(join(outside, 'file'), 'later');
    await fixture.mark(copy);
    expect(copy.reported).toHaveLength(2);
  });

  test('names that are not UTF-8', async () => {
    const { copy } = await fixture.follow(root);
    const directory = Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0xff, 0xfe])]);
    await mkdir(directory);
    await writeFile(Buffer.concat([directory, Buffer.from('/ü')]), '');
    await copy.heard('created \xff\xfe', 'created \xff\xfe/\xc3\xbc');
    await rm(directory, { recursive: true });
    await copy.heard('deleted \xff\xfe');
    expect(copy.contradictions).toEqual([]);
  });
});

test('a closed watch keeps no inotify watch', async () => {
  await makeFile(root, 'a', 'b', 'c');
  const before = await inotifyWatches();
  const { watch } = await fixture.follow(root);
  expect(await inotifyWatches()).toBe(before + 4);
  watch.close();
  await waitFor('the watches to go', async () => (await inotifyWatches()) === before);
});
