import { closeSync, lstatSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { systemReason } from '../client/system-error.ts';
import { RunError } from './failures.ts';

/**
 * Writes a small file that exists as long as the server runs. Readers see all of `text` or no file.
 * Returns the function that removes it, unless another process has replaced it in the meantime.
 * Throws RunError when the file cannot be written.
 */
export function publishFile(flag: string, file: string, text: string): () => void {
  try {
    // Resolved now, because the working directory may be another one when the file is removed.
    const path = resolve(file);
    replaceFile(path, text);
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

function replaceFile(path: string, text: string): void {
  const existing = lstatSync(path, { throwIfNoEntry: false });
  // Renaming over a device, a pipe or a link would replace it; as root even /dev/null.
  if (existing !== undefined && !existing.isFile()) {
    throw new Error('it exists and is not a regular file (choose another path)');
  }
  const temporary = `${path}.${process.pid}.tmp`;
  const descriptor = openSync(temporary, 'wx');
  try {
    writeAndClose(descriptor, text);
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

function writeAndClose(descriptor: number, text: string): void {
  try {
    writeFileSync(descriptor, text);
  } finally {
    closeSync(descriptor);
  }
}

/** Never throws: it runs while the process exits, too late to handle a file that cannot be removed. */
function removeFile(path: string, text: string): void {
  try {
    if (readFileSync(path, 'utf8') === text) rmSync(path);
  } catch {}
}
