import { createHash } from 'node:crypto';
import { fchmodSync, mkdirSync, readFileSync, rmdirSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { RunError } from '../failures.ts';
import { replaceFile } from '../replace-file.ts';

/** A file that `service install` writes. */
export interface InstalledFile {
  readonly path: string;
  readonly mode: number;
  /** Without the line that {@link writeInstalled} adds. */
  readonly text: string;
}

/** What is at the path of such a file: nothing, the file as it was written, or one that a person has changed. */
type FileState = 'absent' | 'unchanged' | 'changed';

const MARK = '# Written by exec-server service install, sha256 of the rest: ';

/** Compares the file with the hash in its first line. Throws RunError when it cannot be read. */
export function stateOf(path: string): FileState {
  const text = readText(path);
  if (text === null) return 'absent';
  const [first = '', ...rest] = text.split('\n');
  return first === `${MARK}${hashOf(rest.join('\n'))}` ? 'unchanged' : 'changed';
}

/** Writes a file with its hash in the first line, and the directories above it. Readers see all of it or the file before. */
export function writeInstalled({ path, mode, text }: InstalledFile): void {
  writeNew(path, `${MARK}${hashOf(text)}\n${text}`, mode);
}

/** Writes a file, and the directories above it. Throws RunError. */
export function writeNew(path: string, text: string, mode: number): void {
  try {
    mkdirSync(dirname(path), { recursive: true });
    // The umask may have taken rights away.
    replaceFile(path, text, { mode, prepare: (descriptor) => fchmodSync(descriptor, mode) });
  } catch (error) {
    throw new RunError(`cannot write ${path}: ${(error as Error).message}`);
  }
}

/** Removes a file, and its directory if nothing is left in it. Throws RunError. */
export function removeFile(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch (error) {
    throw new RunError(`cannot remove ${path}: ${(error as Error).message}`);
  }
  try {
    rmdirSync(dirname(path));
  } catch {
    // It has other files.
  }
}

/** The text of a file; null when there is none. Throws RunError when it cannot be read. */
export function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return null;
    throw new RunError(`cannot read ${path}: ${message}`);
  }
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
