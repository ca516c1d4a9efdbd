import { systemReason } from '../client/system-error.ts';
import { RunError } from './failures.ts';

/** The error for a file that a command cannot read. `what` names the file and what it is for. */
export function cannotReadFile(what: string, error: unknown): RunError {
  return failed(`cannot read ${what}`, READ_FIXES, error);
}

/** The error for a file or a directory that a command cannot write or create. */
export function cannotWriteFile(what: string, error: unknown): RunError {
  return failed(`cannot write ${what}`, WRITE_FIXES, error);
}

function failed(problem: string, fixes: Fixes, error: unknown): RunError {
  const { code = '' } = error as NodeJS.ErrnoException;
  const fix = fixes[code];
  const advice = fix === undefined ? '' : `; ${fix}`;
  return new RunError(`${problem}: ${systemReason(error)}${advice}`, { kind: 'storage' });
}

/** What to do, by system error code. */
type Fixes = Readonly<Record<string, string>>;

const READ_FIXES: Fixes = {
  ENOENT: 'check the path',
  ENOTDIR: 'check the path',
  EISDIR: 'name a file',
  EACCES: 'make it readable for you, or name another file',
};

const WRITE_FIXES: Fixes = {
  ENOENT: 'create the directory, or choose another path',
  ENOTDIR: 'choose another path',
  EISDIR: 'name a file',
  EEXIST: 'choose another name',
  EACCES: 'choose a directory that you may write to',
  EPERM: 'choose a directory that you may write to',
  EROFS: 'choose another path',
  ENOSPC: 'free some space, or choose another path',
};
