import type { FileSystem } from '../file-system.ts';
import { copy } from './copy.ts';
import { createDirectory } from './create-directory.ts';
import { createLink } from './create-link.ts';
import { hashFile } from './hash-file.ts';
import { list } from './list.ts';
import { canonicalize, getMetadata } from './metadata.ts';
import { openFile } from './open-file.ts';
import { readDirectory } from './read-directory.ts';
import { readFile } from './read-file.ts';
import { remove } from './remove.ts';
import { rename } from './rename.ts';
import { setAttributes } from './set-attributes.ts';
import { walk } from './walk.ts';
import { writeFile } from './write-file.ts';

/** The files of this machine, with the permissions of the server's user. */
export const LOCAL_FILE_SYSTEM: FileSystem = {
  readFile,
  writeFile,
  createDirectory,
  getMetadata,
  canonicalize,
  readDirectory,
  walk,
  remove,
  copy,
  rename,
  list,
  setAttributes,
  createLink,
  hash: (path, options, signal) => hashFile(path, options, signal),
  open: openFile,
};
