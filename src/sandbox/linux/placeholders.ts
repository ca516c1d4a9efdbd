import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readlink, rmdir, unlink } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../../files/errors.ts';
import { HeldDirectory } from '../../files/local/no-follow.ts';
import {
  lastName,
  type NativePath,
  parentPath,
  systemPath,
  textOfNativePath,
} from '../../files/native-path.ts';
import type { EnclosingCalls } from '../../process/spawn/spawner.ts';
import { unenforceable } from '../errors.ts';
import { PLACEHOLDER_MODES, type Placeholder } from '../mounts/mount-plan.ts';
import { MAX_PLACEHOLDERS, PLACEHOLDER_ATTEMPTS, PLACEHOLDER_RETRY_MS } from './limits.ts';

/** What a plan says is missing is there now, or the other way round: the plan has to be made anew. */
export class PlanOutdated extends Error {
  override readonly name = 'PlanOutdated';
}

/**
 * Makes the empty files and directories that sandboxes need as places for their mounts, and removes each when its last sandbox is
 * gone. Removing one would undo the mounts on it, in whatever sandbox they are, so every server that uses it holds a shared lock on
 * it, and only who gets the exclusive lock removes it. One that a dead server has left is known by its mode, and removed by the
 * next one to use it. Where the file system has no locks, servers do not know of each other.
 */
export class Placeholders {
  readonly #calls: EnclosingCalls;
  /** By where they are. */
  readonly #held = new Map<NativePath, HeldPlaceholder>();
  /** Those included that are no longer where they were made. */
  readonly #all = new Set<HeldPlaceholder>();
  /** What the guard knows of, the longest unused first; no more than there may be placeholders. */
  readonly #announced = new Map<NativePath, Placeholder['kind']>();

  constructor(calls: EnclosingCalls) {
    this.#calls = calls;
  }

  /**
   * Resolves when all of them exist, to what gives them back; that must be called once, when no mount on them is in use. Rejects with
   * PlanOutdated when a place is taken by something else, and with SandboxError when it cannot be had.
   */
  async hold(placeholders: readonly Placeholder[]): Promise<() => Promise<void>> {
    const parents = new ParentDirectories();
    const results = await Promise.allSettled(
      placeholders.map((placeholder) => this.#hold(placeholder, parents)),
    );
    const release = async () => {
      await Promise.all(
        results.map((result) => result.status === 'fulfilled' && this.#release(result.value)),
      );
    };
    const failure = results.find((result) => result.status === 'rejected');
    if (failure === undefined) return release;
    await release();
    throw failure.reason;
  }

  async #hold(placeholder: Placeholder, parents: ParentDirectories): Promise<HeldPlaceholder> {
    const { path } = placeholder;
    for (let held = this.#held.get(path); held !== undefined; held = this.#held.get(path)) {
      if (held.leaving !== null) {
        await held.leaving;
        continue;
      }
      held.users++;
      if (await isInPlace(held)) return held;
      // Somebody has moved it away with its directory. It stays with those who use it there.
      await this.#release(held);
      if (this.#held.get(path) === held) this.#held.delete(path);
    }
    return await this.#make(placeholder, parents);
  }

  async #make(placeholder: Placeholder, parents: ParentDirectories): Promise<HeldPlaceholder> {
    const { path } = placeholder;
    if (this.#all.size >= MAX_PLACEHOLDERS) {
      throw unenforceable(
        `the sandbox needs an entry ${textOfNativePath(path)} for a moment, and this server holds too many such entries`,
      );
    }
    const held: HeldPlaceholder = {
      ...placeholder,
      users: 1,
      file: this.#acquire(placeholder, parents),
      leaving: null,
    };
    this.#held.set(path, held);
    this.#all.add(held);
    try {
      await held.file;
      return held;
    } catch (error) {
      this.#forget(held);
      throw error;
    }
  }

  async #release(held: HeldPlaceholder): Promise<void> {
    if (--held.users > 0) return;
    held.leaving = this.#leave(held).finally(() => this.#forget(held));
    await held.leaving;
  }

  #forget(held: HeldPlaceholder): void {
    this.#all.delete(held);
    if (this.#held.get(held.path) === held) this.#held.delete(held.path);
  }

  /** The guard hears of it before it exists, so that there is no moment in which the server's death would leave it. */
  async #acquire(placeholder: Placeholder, parents: ParentDirectories): Promise<OpenPlaceholder> {
    const { path } = placeholder;
    const parent = await parents.take(parentPath(path));
    this.#announce(placeholder);
    try {
      const entry = parent.directory.entry(lastName(path));
      for (let attempt = 0; attempt < PLACEHOLDER_ATTEMPTS; attempt++) {
        const acquired = await this.#tryAcquire(placeholder, entry);
        if (acquired !== null) return { parent, entry, ...acquired };
        await delay(PLACEHOLDER_RETRY_MS);
      }
      throw new PlanOutdated(`${textOfNativePath(path)} keeps changing`);
    } catch (error) {
      await parent.giveBack();
      this.#announced.delete(path);
      this.#calls.forgetRemoval(path);
      throw error;
    }
  }

  /** Null when another server is just removing it. */
  async #tryAcquire(placeholder: Placeholder, entry: NativePath): Promise<AcquiredFile | null> {
    const made = await make(placeholder, entry);
    const file = made?.file ?? (await openExisting(placeholder, entry));
    if (file === null) return null;
    try {
      if (this.#lock(file, 'shared')) {
        const identity = await placeholderIdentity(placeholder, entry, file, made !== null);
        if (identity !== null) return { file, identity };
      }
    } catch (error) {
      await file.close();
      throw error;
    }
    await file.close();
    return null;
  }

  async #leave({ kind, file: opened }: HeldPlaceholder): Promise<void> {
    const { parent, entry, file, identity } = await opened;
    try {
      if (this.#lock(file, 'exclusive') && isSame(await lstat(systemPath(entry)), identity))
        await removeIfEmpty(entry, kind, file);
    } catch {
      // What cannot be removed, because its directory is gone or closed to us, is nothing that a sandbox can be blamed for.
    } finally {
      await Promise.all([file.close(), parent.giveBack()]);
    }
  }

  /**
   * The guard is told once of each place and not to forget it when the placeholder is gone, because the next program will want it
   * again: where there is nothing, or something else, or a placeholder of another server, the guard does nothing.
   */
  #announce({ path, kind }: Placeholder): void {
    if (this.#announced.get(path) !== kind) this.#calls.removeAfterDeath(path, kind);
    this.#announced.delete(path);
    this.#announced.set(path, kind);
    if (this.#announced.size <= MAX_PLACEHOLDERS) return;
    for (const oldest of this.#announced.keys()) {
      if (this.#held.has(oldest)) continue;
      this.#announced.delete(oldest);
      this.#calls.forgetRemoval(oldest);
      return;
    }
  }

  #lock(file: FileHandle, mode: 'shared' | 'exclusive'): boolean {
    try {
      return this.#calls.lock(file.fd, mode);
    } catch {
      return true;
    }
  }
}

interface HeldPlaceholder extends Placeholder {
  users: number;
  readonly file: Promise<OpenPlaceholder>;
  /** Set while it is given up. */
  leaving: Promise<void> | null;
}

/** What tells a file from all others that exist at the same time. */
interface FileIdentity {
  readonly dev: number;
  readonly ino: number;
}

interface AcquiredFile {
  /** Open and locked. */
  readonly file: FileHandle;
  readonly identity: FileIdentity;
}

/** A placeholder that is in use. Whatever becomes of the way to its directory, it is reached through that. */
interface OpenPlaceholder extends AcquiredFile {
  readonly parent: SharedDirectory;
  readonly entry: NativePath;
}

/** A directory of placeholders. Each of them gives it back once. */
interface SharedDirectory {
  readonly directory: HeldDirectory;
  giveBack(): Promise<void>;
}

/** The directories of the placeholders that are made together, each held once. */
class ParentDirectories {
  readonly #shared = new Map<NativePath, { users: number; readonly directory: Promise<HeldDirectory> }>();

  async take(path: NativePath): Promise<SharedDirectory> {
    const shared = this.#shared.get(path) ?? { users: 0, directory: holdDirectory(path) };
    this.#shared.set(path, shared);
    shared.users++;
    const directory = await shared.directory;
    const giveBack = async () => {
      if (--shared.users > 0) return;
      this.#shared.delete(path);
      await directory.close();
    };
    return { directory, giveBack };
  }
}

/** Somebody may have put a link in the place of a directory since the plan was made. */
async function holdDirectory(path: NativePath): Promise<HeldDirectory> {
  try {
    const held = await HeldDirectory.at(path);
    if ((await readlink(systemPath(held.path), 'latin1')) === path) return held;
    await held.close();
  } catch (error) {
    throw failure(error, path);
  }
  throw new PlanOutdated(`${textOfNativePath(path)} has been exchanged`);
}

/** Null when there is something already; a file comes open, a directory has to be opened. */
async function make(
  { path, kind }: Placeholder,
  entry: NativePath,
): Promise<{ readonly file: FileHandle | null } | null> {
  const mode = PLACEHOLDER_MODES[kind];
  try {
    if (kind === 'file') return { file: await open(systemPath(entry), OPEN_FLAGS.file | CREATE, mode) };
    await mkdir(systemPath(entry), mode);
    return { file: null };
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return null;
    throw failure(error, path);
  }
}

function failure(error: unknown, path: NativePath): Error {
  const code = errorCode(error) ?? String(error);
  const text = textOfNativePath(path);
  if (OUTDATED.has(code)) return new PlanOutdated(`${text} has changed (${code})`);
  return unenforceable(`the sandbox needs an entry ${text} for a moment, and it cannot be made (${code})`);
}

/** Null when it has vanished. */
async function openExisting({ path, kind }: Placeholder, entry: NativePath): Promise<FileHandle | null> {
  try {
    return await open(systemPath(entry), OPEN_FLAGS[kind]);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    throw failure(error, path);
  }
}

/** Null when the path does not lead to the open file. Throws PlanOutdated when that is something else than a placeholder. */
async function placeholderIdentity(
  { path, kind }: Placeholder,
  entry: NativePath,
  file: FileHandle,
  ownWork: boolean,
): Promise<FileIdentity | null> {
  const [at, opened] = await Promise.all([lstat(systemPath(entry)).catch(() => null), file.stat()]);
  if (at === null || !isSame(at, opened)) return null;
  if ((opened.mode & 0o7777) !== PLACEHOLDER_MODES[kind]) {
    if (!ownWork) throw new PlanOutdated(`${textOfNativePath(path)} has been made by somebody else`);
    // The umask has taken bits away.
    await file.chmod(PLACEHOLDER_MODES[kind]);
  }
  return { dev: opened.dev, ino: opened.ino };
}

/** Whether a placeholder is still where it was made. Throws when it could not be made. */
async function isInPlace({ path, file }: HeldPlaceholder): Promise<boolean> {
  const { identity } = await file;
  const at = await lstat(systemPath(path)).catch(() => null);
  return at !== null && isSame(at, identity);
}

function isSame(one: FileIdentity, other: FileIdentity): boolean {
  return one.ino === other.ino && one.dev === other.dev;
}

/** What somebody has filled meanwhile is theirs now and gets an ordinary mode. */
async function removeIfEmpty(path: NativePath, kind: Placeholder['kind'], file: FileHandle): Promise<void> {
  if (kind === 'file') {
    if ((await file.stat()).size > 0) await file.chmod(ORDINARY_MODES.file);
    else await unlink(systemPath(path));
    return;
  }
  try {
    await rmdir(systemPath(path));
  } catch (error) {
    if (errorCode(error) === 'ENOTEMPTY') await file.chmod(ORDINARY_MODES.directory);
  }
}

const OPEN_FLAGS: Readonly<Record<Placeholder['kind'], number>> = {
  directory: constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_DIRECTORY,
  file: constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
};
const CREATE = constants.O_CREAT | constants.O_EXCL;

/** What the system says when the way to a path is another one than it was. */
const OUTDATED: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'EISDIR']);

const ORDINARY_MODES: Readonly<Record<Placeholder['kind'], number>> = { directory: 0o755, file: 0o644 };
