import { rename, symlink, unlink } from 'node:fs/promises';
import { refused, toFileError } from '../errors.ts';
import { MAX_LINK_TARGET_BYTES } from '../limits.ts';
import {
  childPath,
  lastName,
  type NativePath,
  nativePathOfBytes,
  parentPath,
  systemPath,
} from '../native-path.ts';
import { sweepTemporaries, temporaryName } from './temporary-files.ts';

/**
 * Creates a symbolic link. The target is only stored: it need not exist, and nothing follows it here. With `replace` the link takes
 * the place of a file or link in one step; a directory stays and is an error.
 */
export async function createLink(
  path: NativePath,
  target: string,
  { replace }: { readonly replace: boolean },
): Promise<void> {
  if (target === '' || target.length > MAX_LINK_TARGET_BYTES || target.includes('\0')) {
    throw refused(`the target of a link must have 1 to ${MAX_LINK_TARGET_BYTES} bytes and no NUL`);
  }
  const content = systemPath(nativePathOfBytes(target));
  try {
    if (replace) await replaceByLink(path, content);
    else await symlink(content, systemPath(path));
  } catch (error) {
    throw toFileError(error);
  }
}

async function replaceByLink(path: NativePath, content: string | Buffer): Promise<void> {
  const directory = parentPath(path);
  await sweepTemporaries(directory);
  const temporary = systemPath(childPath(directory, await temporaryName(lastName(path))));
  await symlink(content, temporary);
  try {
    await rename(temporary, systemPath(path));
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
}
