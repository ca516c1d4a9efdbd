import { closeSync, constants, fchmod, fstatSync, open, openSync } from 'node:fs';
import { mkdir, rmdir, unlink } from 'node:fs/promises';
import { promisify } from 'node:util';
import { errorCode } from '../../files/errors.ts';
import { childPath, type NativePath, systemPath, textOfNativePath } from '../../files/native-path.ts';
import { isPlaceholderMode } from '../../files/placeholder-mode.ts';
import type { SandboxCalls } from '../../process/spawn/spawner.ts';
import { unenforceable } from '../errors.ts';
import { PLACEHOLDER_MODES, type Placeholder } from '../mounts/mount-plan.ts';
import { descriptorPath, pathOfDescriptor } from './descriptors.ts';

/** A path that the plan found missing exists now, or the reverse. A new plan is needed. */
export class PlanOutdatedError extends Error {
  override readonly name = 'PlanOutdatedError';
}

/** A name in an open directory. It stays reachable when the directory is moved. */
export interface Entry {
  readonly directory: number;
  readonly name: string;
}

/** An open parent directory. Each of its placeholders releases it once. */
export interface SharedDirectory {
  readonly fd: number;
  release(): void;
}

/** The parent directories of placeholders that are created together. Each is opened once. */
export class ParentDirectories {
  readonly #calls: Pick<SandboxCalls, 'openCached'>;
  readonly #shared = new Map<NativePath, { users: number; readonly fd: Promise<number> }>();

  constructor(calls: Pick<SandboxCalls, 'openCached'>) {
    this.#calls = calls;
  }

  async take(path: NativePath): Promise<SharedDirectory> {
    const shared = this.#shared.get(path) ?? { users: 0, fd: this.#hold(path) };
    this.#shared.set(path, shared);
    shared.users++;
    const fd = await shared.fd;
    const release = () => {
      if (--shared.users > 0) return;
      this.#shared.delete(path);
      closeSync(fd);
    };
    return { fd, release };
  }

  /** Another process may have replaced the directory with a link or a file since the plan was made. */
  async #hold(path: NativePath): Promise<number> {
    try {
      const known = this.#calls.openCached(path, 'refused');
      const fd = typeof known === 'number' ? known : await openFile(systemPath(path), HOLD_DIRECTORY);
      if (pathOfDescriptor(fd) === path) return fd;
      closeSync(fd);
    } catch (error) {
      throw failure(error, path);
    }
    throw new PlanOutdatedError(`${textOfNativePath(path)} has been replaced`);
  }
}

/** Null when the entry exists already. */
export async function createEntry(
  { path, kind }: Placeholder,
  entry: Entry,
): Promise<{ readonly fd: number | null } | null> {
  const mode = PLACEHOLDER_MODES[kind];
  const made = systemPath(pathOf(entry));
  try {
    if (kind === 'file') return { fd: await openFile(made, OPEN_FLAGS.file | CREATE, mode) };
    await mkdir(made, mode);
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return null;
    throw failure(error, path);
  }
  try {
    return { fd: openSync(made, OPEN_FLAGS.directory) };
  } catch (error) {
    // Most likely no descriptor is left. Without one, no lock can be taken either.
    if (errorCode(error) !== 'ENOENT') await rmdir(made).catch(() => {});
    return { fd: unlessVanished(error, path) };
  }
}

/** Null when it no longer exists. */
export async function openExisting({ path, kind }: Placeholder, entry: Entry): Promise<number | null> {
  try {
    return await openFile(systemPath(pathOf(entry)), OPEN_FLAGS[kind]);
  } catch (error) {
    return unlessVanished(error, path);
  }
}

function unlessVanished(error: unknown, path: NativePath): null {
  if (errorCode(error) === 'ENOENT') return null;
  throw failure(error, path);
}

export function failure(error: unknown, path: NativePath): Error {
  const code = errorCode(error) ?? String(error);
  const text = textOfNativePath(path);
  if (OUTDATED.has(code)) return new PlanOutdatedError(`${text} has changed (${code})`);
  return unenforceable(`the sandbox needs a temporary entry ${text}, and it cannot be created (${code})`);
}

function pathOf({ directory, name }: Entry): NativePath {
  return childPath(descriptorPath(directory), name);
}

/** Whether the entry still is the open file, and not removed or moved. */
export function leadsTo({ directory, name }: Entry, fd: number): boolean {
  return pathOfDescriptor(fd) === childPath(pathOfDescriptor(directory), name);
}

/** Throws PlanOutdatedError when the open file is not a placeholder. */
export async function placeholderIdentity(
  { path, kind }: Placeholder,
  fd: number,
  isNew: boolean,
): Promise<string> {
  const stats = fstatSync(fd, { bigint: true });
  const { dev, ino, mode } = stats;
  const isKind = kind === 'directory' ? stats.isDirectory() : stats.isFile();
  if (!isKind || !isPlaceholderMode(Number(mode))) {
    throw new PlanOutdatedError(`${textOfNativePath(path)} has been created by another process`);
  }
  // The umask may have cleared bits.
  const isComplete = Number(mode & 0o1777n) === PLACEHOLDER_MODES[kind];
  if (isNew && !isComplete) await changeMode(fd, PLACEHOLDER_MODES[kind]);
  return `${dev}:${ino}:${kind}`;
}

/** Gives an ordinary mode to an entry that another process has filled, and leaves it. */
export async function removeIfEmpty(entry: Entry, kind: Placeholder['kind'], fd: number): Promise<void> {
  const path = systemPath(pathOf(entry));
  if (kind === 'file') {
    if (fstatSync(fd).size > 0) await changeMode(fd, ORDINARY_MODES.file);
    else await unlink(path);
    return;
  }
  try {
    await rmdir(path);
  } catch (error) {
    if (errorCode(error) === 'ENOTEMPTY') await changeMode(fd, ORDINARY_MODES.directory);
  }
}

const changeMode = promisify(fchmod);
const openFile = promisify(open);

const OPEN_FLAGS: Readonly<Record<Placeholder['kind'], number>> = {
  directory: constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_DIRECTORY,
  file: constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
};
const CREATE = constants.O_CREAT | constants.O_EXCL;
/** Includes O_PATH, which needs no permission to read the directory. Node has no constant for it. */
const HOLD_DIRECTORY = constants.O_DIRECTORY | constants.O_NOFOLLOW | 0o10000000;

/** Error codes that mean that the path has changed. */
const OUTDATED: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'EISDIR']);

const ORDINARY_MODES: Readonly<Record<Placeholder['kind'], number>> = { directory: 0o755, file: 0o644 };
