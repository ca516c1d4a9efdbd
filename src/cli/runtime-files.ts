import { fchmodSync, lstatSync, readFileSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { systemReason } from '../client/system-error.ts';
import { RunError } from './failures.ts';
import { replaceFile } from './replace-file.ts';

/**
 * Writes a small file that exists as long as the server runs. Readers see all of `text` or no file.
 * Returns the function that removes it, unless another process has replaced it in the meantime. `mode` null is that of the umask.
 * Throws RunError when the file cannot be written.
 */
export function publishFile(
  flag: string,
  file: string,
  text: string,
  mode: number | null = null,
): () => void {
  try {
    // Resolved now, because the working directory may be another one when the file is removed.
    const path = resolve(file);
    expectReplaceable(path);
    replaceFile(
      path,
      text,
      mode === null ? { mode: 0o666 } : { mode, prepare: (descriptor) => fchmodSync(descriptor, mode) },
    );
    return () => removeFile(path, text);
  } catch (error) {
    const reason = WRITE_FAILURES[(error as NodeJS.ErrnoException).code ?? ''] ?? systemReason(error);
    throw new RunError(`cannot write ${flag} ${file}: ${reason}`);
  }
}

const WRITE_FAILURES: Readonly<Record<string, string>> = {
  ENOENT: 'its directory does not exist (create it, or choose another path)',
  ENOTDIR: 'part of the path is not a directory (choose another path)',
  EACCES: 'permission denied (choose a directory you may write to)',
  EROFS: 'the file system is read-only (choose another path)',
  ENOSPC: 'the disk is full (free some space, or choose another path)',
};

/** Renaming over a device, a pipe or a link would replace it; as root even /dev/null. */
function expectReplaceable(path: string): void {
  const existing = lstatSync(path, { throwIfNoEntry: false });
  if (existing !== undefined && !existing.isFile()) {
    throw new Error('it exists and is not a regular file (choose another path)');
  }
}

/** Never throws: it runs while the process exits, too late to handle a file that cannot be removed. */
function removeFile(path: string, text: string): void {
  try {
    if (readFileSync(path, 'utf8') === text) rmSync(path);
  } catch {}
}
