import { close, closeSync, constants, fchmod, fstatSync, open, openSync } from 'node:fs';
import { lstat, mkdir, rmdir, unlink } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { errorCode } from '../../files/errors.ts';
import {
  childPath,
  lastName,
  type NativePath,
  parentPath,
  systemPath,
  textOfNativePath,
} from '../../files/native-path.ts';
import type { SandboxCalls } from '../../process/spawn/spawner.ts';
import { unenforceable } from '../errors.ts';
import { isPlaceholderMode, PLACEHOLDER_MODES, type Placeholder } from '../mounts/mount-plan.ts';
import { descriptorPath, placeOf } from './descriptors.ts';
import { MAX_PLACEHOLDERS, PLACEHOLDER_ATTEMPTS, PLACEHOLDER_RETRY_MS } from './limits.ts';

/** What a plan says is missing is there now, or the other way round: the plan has to be made anew. */
export class PlanOutdated extends Error {
  override readonly name = 'PlanOutdated';
}

type PlaceholderCalls = Pick<SandboxCalls, 'lock' | 'openCached' | 'removeAfterDeath' | 'forgetRemoval'>;

/** Placeholders that are in place. */
export interface HeldPlaces {
  /** What each path leads to, as {@link FileFacts} tells files from each other. */
  readonly identities: ReadonlyMap<NativePath, string>;
  /** Gives them back. Must be called once, when no mount on them is in use. */
  release(): Promise<void>;
}

/**
 * Makes the empty files and directories that sandboxes need as places for their mounts, and removes each when its last sandbox is
 * gone. Removing one would undo the mounts on it, in whatever sandbox they are, so every server that uses it holds a shared lock on
 * it, and only who gets the exclusive lock removes it. One that a dead server has left is known by its mode, and removed by the
 * next one to use it. Where the file system has no locks, servers do not know of each other.
 *
 * Each start waits for this, and a trip to a thread takes longer than what is done there. So only those calls go to a thread that have to
 * wait for a disk; what follows at once on a file that has just been made does not, and no more do questions to the kernel alone.
 */
export class Placeholders {
  readonly #calls: PlaceholderCalls;
  /** By where they are. */
  readonly #held = new Map<NativePath, HeldPlaceholder>();
  /** Those included that are no longer where they were made, or are just being closed. */
  readonly #all = new Set<HeldPlaceholder>();
  /** What the guard knows of, the longest unused first; no more than there may be placeholders. */
  readonly #announced = new Map<NativePath, Placeholder['kind']>();

  constructor(calls: PlaceholderCalls) {
    this.#calls = calls;
  }

  /**
   * Resolves when all of them exist. Rejects with PlanOutdated when a place is taken by something else, and with SandboxError when it
   * cannot be had.
   */
  async hold(placeholders: readonly Placeholder[]): Promise<HeldPlaces> {
    const parents = new ParentDirectories(this.#calls);
    const results = await Promise.allSettled(
      placeholders.map((placeholder) => this.#hold(placeholder, parents)),
    );
    const release = async () => {
      await Promise.all(
        results.map((result) => result.status === 'fulfilled' && this.#release(result.value)),
      );
    };
    const failure = results.find((result) => result.status === 'rejected');
    if (failure !== undefined) {
      await release();
      throw failure.reason;
    }
    const identities = new Map<NativePath, string>();
    for (const result of results) {
      if (result.status === 'fulfilled')
        identities.set(result.value.path, (await result.value.file).identity);
    }
    return { identities, release };
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
      this.#forgetPlace(held);
      this.#all.delete(held);
      throw error;
    }
  }

  async #release(held: HeldPlaceholder): Promise<void> {
    if (--held.users > 0) return;
    held.leaving = this.#leave(held).finally(() => this.#forgetPlace(held));
    await held.leaving;
  }

  #forgetPlace(held: HeldPlaceholder): void {
    if (this.#held.get(held.path) === held) this.#held.delete(held.path);
  }

  /** The guard hears of it before it exists, so that there is no moment in which the server's death would leave it. */
  async #acquire(placeholder: Placeholder, parents: ParentDirectories): Promise<OpenPlaceholder> {
    const { path } = placeholder;
    const parent = await parents.take(parentPath(path));
    this.#announce(placeholder);
    try {
      const entry = { directory: parent.fd, name: lastName(path) };
      for (let attempt = 0; attempt < PLACEHOLDER_ATTEMPTS; attempt++) {
        const acquired = await this.#tryAcquire(placeholder, entry);
        if (acquired !== null) return { parent, entry, ...acquired };
        await delay(PLACEHOLDER_RETRY_MS);
      }
      throw new PlanOutdated(`${textOfNativePath(path)} keeps changing`);
    } catch (error) {
      parent.giveBack();
      this.#announced.delete(path);
      this.#calls.forgetRemoval(path);
      throw error;
    }
  }

  /** Null when another server is just removing it. */
  async #tryAcquire(placeholder: Placeholder, entry: Entry): Promise<AcquiredFile | null> {
    const made = await make(placeholder, entry);
    const fd = made === null ? await openExisting(placeholder, entry) : made.fd;
    if (fd === null) return null;
    try {
      if (this.#lock(fd, 'shared') && leadsTo(entry, fd)) {
        return { fd, identity: await placeholderIdentity(placeholder, fd, made !== null) };
      }
    } catch (error) {
      closeSync(fd);
      throw error;
    }
    closeSync(fd);
    return null;
  }

  /**
   * Resolves when it is gone. It stays open for a moment longer: the file system does what is left to be done about a file that was
   * removed when that is closed, and nobody has to wait for it.
   */
  async #leave(held: HeldPlaceholder): Promise<void> {
    const { parent, entry, fd } = await held.file;
    try {
      if (this.#lock(fd, 'exclusive') && leadsTo(entry, fd)) await removeIfEmpty(entry, held.kind, fd);
    } catch {
      // What cannot be removed, because its directory is gone or closed to us, is nothing that a sandbox can be blamed for.
    } finally {
      close(fd, () => this.#all.delete(held));
      parent.giveBack();
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

  #lock(fd: number, mode: 'shared' | 'exclusive'): boolean {
    try {
      return this.#calls.lock(fd, mode);
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

interface AcquiredFile {
  /** Open and locked. */
  readonly fd: number;
  readonly identity: string;
}

/** A name in a directory that is held. Whatever becomes of the way to the directory, the name is reached through that. */
interface Entry {
  readonly directory: number;
  readonly name: string;
}

/** A placeholder that is in use. */
interface OpenPlaceholder extends AcquiredFile {
  readonly parent: SharedDirectory;
  readonly entry: Entry;
}

/** A directory of placeholders. Each of them gives it back once. */
interface SharedDirectory {
  readonly fd: number;
  giveBack(): void;
}

/** The directories of the placeholders that are made together, each held once. */
class ParentDirectories {
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
    const giveBack = () => {
      if (--shared.users > 0) return;
      this.#shared.delete(path);
      closeSync(fd);
    };
    return { fd, giveBack };
  }

  /** Somebody may have put a link in the place of a directory since the plan was made, or a file. */
  async #hold(path: NativePath): Promise<number> {
    try {
      const known = this.#calls.openCached(path, 'refused');
      const fd = typeof known === 'number' ? known : await openFile(systemPath(path), HOLD_DIRECTORY);
      if (placeOf(fd) === path) return fd;
      closeSync(fd);
    } catch (error) {
      throw failure(error, path);
    }
    throw new PlanOutdated(`${textOfNativePath(path)} has been exchanged`);
  }
}

/** Null when there is something already. */
async function make(
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
    return { fd: unlessVanished(error, path) };
  }
}

/** Null when it has vanished. */
async function openExisting({ path, kind }: Placeholder, entry: Entry): Promise<number | null> {
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

function failure(error: unknown, path: NativePath): Error {
  const code = errorCode(error) ?? String(error);
  const text = textOfNativePath(path);
  if (OUTDATED.has(code)) return new PlanOutdated(`${text} has changed (${code})`);
  return unenforceable(`the sandbox needs an entry ${text} for a moment, and it cannot be made (${code})`);
}

function pathOf({ directory, name }: Entry): NativePath {
  return childPath(descriptorPath(directory), name);
}

/** Whether the name still stands for the open file; one that was removed or moved is elsewhere. */
function leadsTo({ directory, name }: Entry, fd: number): boolean {
  return placeOf(fd) === childPath(placeOf(directory), name);
}

/** Throws PlanOutdated when the open file is something else than a placeholder. */
async function placeholderIdentity(
  { path, kind }: Placeholder,
  fd: number,
  ownWork: boolean,
): Promise<string> {
  const stats = fstatSync(fd, { bigint: true });
  const { dev, ino, mode } = stats;
  const isKind = kind === 'directory' ? stats.isDirectory() : stats.isFile();
  if (!isKind || !isPlaceholderMode(Number(mode))) {
    throw new PlanOutdated(`${textOfNativePath(path)} has been made by somebody else`);
  }
  // The umask may have taken bits away.
  const isComplete = Number(mode & 0o1777n) === PLACEHOLDER_MODES[kind];
  if (ownWork && !isComplete) await changeMode(fd, PLACEHOLDER_MODES[kind]);
  return `${dev}:${ino}:${kind}`;
}

/** Whether a placeholder is still where it was made. Throws when it could not be made. */
async function isInPlace({ path, kind, file }: HeldPlaceholder): Promise<boolean> {
  const { identity } = await file;
  const at = await lstat(systemPath(path), { bigint: true }).catch(() => null);
  return at !== null && `${at.dev}:${at.ino}:${kind}` === identity;
}

/** What somebody has filled meanwhile is theirs now and gets an ordinary mode. */
async function removeIfEmpty(entry: Entry, kind: Placeholder['kind'], fd: number): Promise<void> {
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
/** With Linux's flag for a descriptor that only names a place: it needs no right to read the directory. Node has no constant for it. */
const HOLD_DIRECTORY = constants.O_DIRECTORY | constants.O_NOFOLLOW | 0o10000000;

/** What the system says when the way to a path is another one than it was. */
const OUTDATED: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'EISDIR']);

const ORDINARY_MODES: Readonly<Record<Placeholder['kind'], number>> = { directory: 0o755, file: 0o644 };
