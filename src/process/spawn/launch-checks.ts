import { stat } from 'node:fs/promises';
import { unlessAborted } from '../../base/abort.ts';
import { LAUNCH_CACHE_ENTRIES, LAUNCH_CACHE_MS } from '../limits.ts';
import { findProgram, isExecutable } from './program-lookup.ts';
import { SpawnError, type SpawnSpec } from './spawner.ts';

/**
 * Reports everything that is wrong with a spec before the program is started. Resolves to the path to execute. Accesses the file
 * system off the event loop: a dead mount delays only this start, and `signal` ends the wait immediately.
 */
export async function checkLaunch(spec: SpawnSpec, signal?: AbortSignal): Promise<string> {
  rejectNulBytes(spec);
  return untilAborted(signal, async () => {
    const [cwd, program] = await Promise.allSettled([checkCwd(spec.cwd), findProgram(spec)]);
    if (cwd.status === 'rejected') throw cwd.reason;
    if (program.status === 'rejected') throw program.reason;
    return program.value;
  });
}

/** The error of a start that was cancelled before the program ran. */
export function cancelled(why: string): SpawnError {
  return new SpawnError('ECANCELED', `start was cancelled: ${why}`);
}

/** Explains why the system did not execute `path` or did not provide what that needs. */
export function describeLaunchFailure(error: unknown, path: string): SpawnError {
  const { code = 'EIO', message, syscall } = error as NodeJS.ErrnoException;
  const explain = SHORTAGES[code] ?? (syscall === 'posix_openpt' ? withoutTerminals : REFUSALS[code]);
  return new SpawnError(
    code,
    explain === undefined ? `${path} could not be started (${message})` : explain(path, message),
  );
}

type Explain = (path: string, message: string) => string;

const SHORTAGES: Readonly<Record<string, Explain>> = {
  EAGAIN: (path) => `${path} could not be started: the limit of processes is reached`,
  ENOMEM: (path) => `${path} could not be started: out of memory`,
  EMFILE: (path) => `${path} could not be started: this server has no file descriptor left`,
  ENFILE: (path) => `${path} could not be started: the system has no file descriptor left`,
  ENOSPC: (path) => `${path} could not be started: no pseudo-terminal is left`,
};

const REFUSALS: Readonly<Record<string, Explain>> = {
  ENOENT: (path) => `${path} cannot run: the interpreter or loader it names does not exist`,
  EACCES: (path) => `${path} is not executable`,
  ENOEXEC: (path) => `${path}: not a valid executable (no #! line?)`,
  ETXTBSY: (path) => `${path} is open for writing`,
  E2BIG: (path) => `the arguments and environment of ${path} are too long`,
};

const withoutTerminals: Explain = (path, message) =>
  `${path} could not be started: a terminal needs /dev/ptmx and a devpts at /dev/pts (${message})`;

async function checkCwd(cwd: string): Promise<void> {
  const code = await probeDirectory(cwd);
  if (code === null) return;
  if (code === 'ENOENT') throw new SpawnError(code, `cwd ${cwd} does not exist`);
  if (code === 'ENOTDIR') throw new SpawnError(code, `cwd ${cwd} is not a directory`);
  if (code === 'EACCES') throw new SpawnError(code, `cwd ${cwd} is not accessible`);
  throw new SpawnError(code, `cwd ${cwd} cannot be entered (${code})`);
}

/** Null when the directory can be entered, else the errno name. */
async function probeDirectory(path: string): Promise<string | null> {
  try {
    const [entry, searchable] = await Promise.all([stat(path), isExecutable(path)]);
    if (!entry.isDirectory()) return 'ENOTDIR';
    return searchable ? null : 'EACCES';
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'EIO';
  }
}

/** Throws on what cannot be passed to a program: a C string ends at a NUL. */
export function rejectNulBytes(spec: SpawnSpec): void {
  const reject = (field: string): never => {
    throw new SpawnError('EINVAL', `${field} contains a NUL byte`);
  };
  if (spec.program.includes('\0')) reject('program');
  if (spec.cwd.includes('\0')) reject('cwd');
  for (const [index, argument] of spec.argv.entries()) {
    if (argument.includes('\0')) reject(`argv[${index}]`);
  }
  for (const [key, value] of Object.entries(spec.env)) {
    if (key.includes('\0')) reject('the name of an environment variable');
    if (value.includes('\0')) reject(`environment variable ${key}`);
  }
}

async function untilAborted<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
  if (signal === undefined) return work();
  if (signal.aborted) throw cancelled('aborted');
  return unlessAborted(work(), signal, () => {
    throw cancelled('aborted');
  });
}

/**
 * Caches for a short time which directories and programs passed the checks, so that commands in quick succession skip them. A
 * start that fails nevertheless is checked again for the reason. Bare names are not cached, because their meaning can change at
 * any time.
 */
export class LaunchCache {
  readonly #now: () => number;
  /** Key to the time of the check, the oldest first. */
  readonly #checkedAt = new Map<string, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Whether the same directory and program passed the checks recently. */
  knows(spec: SpawnSpec): boolean {
    const checkedAt = this.#checkedAt.get(keyOf(spec));
    return checkedAt !== undefined && this.#now() - checkedAt < LAUNCH_CACHE_MS;
  }

  add(spec: SpawnSpec): void {
    if (!spec.program.includes('/')) return;
    const key = keyOf(spec);
    this.#checkedAt.delete(key);
    this.#checkedAt.set(key, this.#now());
    const [oldest] = this.#checkedAt.keys();
    if (this.#checkedAt.size > LAUNCH_CACHE_ENTRIES && oldest !== undefined) this.#checkedAt.delete(oldest);
  }

  forget(spec: SpawnSpec): void {
    this.#checkedAt.delete(keyOf(spec));
  }
}

function keyOf({ program, cwd }: SpawnSpec): string {
  return `${cwd}\0${program}`;
}
