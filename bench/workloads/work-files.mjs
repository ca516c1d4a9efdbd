// The files of the file workloads: created by the first measurement that needs them, kept for the run, and removed with its folder.
import { randomFillSync } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { MB } from './programs.mjs';

/**
 * A file of random bytes, which no file system can compress. It is synced before use, so that no write-back happens during a
 * measurement, and its pages are in the page cache.
 * @param {string} work @param {number} bytes @returns {string} Its path.
 */
export function randomFile(work, bytes) {
  return once(join(work, `random-${bytes}`), (path) => {
    const block = Buffer.allocUnsafeSlow(Math.min(bytes, MB));
    const file = openSync(path, 'wx');
    for (let at = 0; at < bytes; at += block.length) {
      writeSync(file, randomFillSync(block), 0, Math.min(block.length, bytes - at));
    }
    fsyncSync(file);
    closeSync(file);
  });
}

/** @param {number} index */
export const entryName = (index) => `e${String(index).padStart(5, '0')}`;

/** Of the entries of a wide folder every tenth is a folder. @param {number} index */
export const isFolder = (index) => index % 10 === 0;

/** The size of the files of a wide folder, in bytes. */
export const ENTRY_BYTES = 7;

/** One folder with many entries. @param {string} work @param {number} count */
export function wideFolder(work, count) {
  return once(join(work, `wide-${count}`), (path) => {
    mkdirSync(path);
    for (let i = 0; i < count; i++) {
      const entry = join(path, entryName(i));
      if (isFolder(i)) mkdirSync(entry);
      else writeFileSync(entry, Buffer.alloc(ENTRY_BYTES));
    }
  });
}

/**
 * A tree: folders with files in them.
 * @param {string} work @param {number} folders @param {number} filesEach
 */
export function tree(work, folders, filesEach) {
  return once(join(work, `tree-${folders}`), (path) => {
    mkdirSync(path);
    for (const { name, kind } of treeEntries(folders, filesEach)) {
      if (kind === 'directory') mkdirSync(path + name);
      else writeFileSync(path + name, '');
    }
  });
}

/** What a walk of the tree returns, in its order. Names are short because the response of a walk has a limit. */
export function treeEntries(folders, filesEach) {
  const folderNames = Array.from({ length: folders }, (_, i) => `/${String(i).padStart(3, '0')}`);
  const fileNames = Array.from({ length: filesEach }, (_, i) => `/${String(i).padStart(2, '0')}`);
  return [
    ...folderNames.map((name) => ({ name, kind: 'directory' })),
    ...folderNames.flatMap((folder) => fileNames.map((file) => ({ name: folder + file, kind: 'file' }))),
  ];
}

/** Creates what does not exist. It is renamed when it is complete, so that an interrupted measurement leaves nothing partial. */
function once(path, make) {
  if (!existsSync(path)) {
    const unfinished = `${path}-unfinished`;
    rmSync(unfinished, { recursive: true, force: true });
    make(unfinished);
    renameSync(unfinished, path);
  }
  return path;
}
