import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { SpawnError, type SpawnSpec } from './spawner.ts';

/** Search path for bare names when the child's environment has no PATH. */
const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * Resolves the path to execute, absolute or relative to `spec.cwd`, always with a slash in it. A bare name resolves to the first
 * executable file on the child's PATH. As in execvp(3), empty and relative entries of PATH are relative to `spec.cwd`. Rejects
 * with SpawnError ENOENT, EACCES or the system's own code.
 */
export async function findProgram(spec: Pick<SpawnSpec, 'program' | 'cwd' | 'env'>): Promise<string> {
  if (spec.program === '') throw new SpawnError('ENOENT', 'program is empty');
  return spec.program.includes('/') ? checkPath(spec.program, spec.cwd) : searchPath(spec);
}

/** Whether this process may execute the file or search the directory; false when that is unknown. */
export function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

async function checkPath(program: string, cwd: string): Promise<string> {
  const code = await probe(relativeTo(cwd, program));
  if (code === null) return program;
  if (code === 'ENOENT') throw new SpawnError(code, `program ${program} does not exist`);
  if (code === 'EISDIR') throw new SpawnError('EACCES', `${program} is not a regular file`);
  if (code === 'EACCES') throw new SpawnError(code, `${program} is not executable`);
  if (code === HIDDEN)
    throw new SpawnError(
      'EACCES',
      `program ${program} cannot be reached: a directory of its path is not accessible`,
    );
  throw new SpawnError(code, `program ${program} cannot be run (${code})`);
}

async function searchPath(spec: Pick<SpawnSpec, 'program' | 'cwd' | 'env'>): Promise<string> {
  const searched = spec.env.PATH ?? DEFAULT_PATH;
  let denied: string | null = null;
  for (const entry of searched.split(':')) {
    const candidate = `${entry === '' ? '.' : entry}/${spec.program}`;
    const code = await probe(relativeTo(spec.cwd, candidate));
    if (code === null) return candidate;
    if (code === 'EACCES' || code === 'EISDIR' || code === HIDDEN) denied ??= candidate;
  }
  if (denied !== null) throw new SpawnError('EACCES', `${denied} is not executable (PATH=${searched})`);
  throw new SpawnError('ENOENT', `program not found on PATH: ${spec.program} (PATH=${searched})`);
}

/** Null when the file can be executed, otherwise the errno name or {@link HIDDEN}; EISDIR for anything that is not a regular file. */
async function probe(path: string): Promise<string | null> {
  try {
    const [entry, executable] = await Promise.all([stat(path), isExecutable(path)]);
    if (!entry.isFile()) return 'EISDIR';
    return executable ? null : 'EACCES';
  } catch (error) {
    const { code = 'EIO' } = error as NodeJS.ErrnoException;
    // `stat` needs no permission for the file itself.
    return code === 'EACCES' ? HIDDEN : code;
  }
}

/** What {@link probe} returns for a path that leads through a directory that this process may not search. */
const HIDDEN = 'hidden';

/** Joins without normalising: `..` after a symbolic link must lead where the kernel goes. */
function relativeTo(cwd: string, path: string): string {
  return path.startsWith('/') ? path : `${cwd}/${path}`;
}
