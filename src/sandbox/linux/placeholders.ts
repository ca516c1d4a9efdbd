import { close, closeSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { FairShares, type Owner, type SharedUnits } from '../../base/fair-shares.ts';
import {
  lastName,
  type NativePath,
  parentPath,
  systemPath,
  textOfNativePath,
} from '../../files/native-path.ts';
import type { SandboxCalls } from '../../process/spawn/spawner.ts';
import { unenforceable } from '../errors.ts';
import type { Placeholder } from '../mounts/mount-plan.ts';
import {
  DESCRIPTORS_PER_PLACEHOLDER,
  MAX_PLACEHOLDERS,
  PLACEHOLDER_ATTEMPTS,
  PLACEHOLDER_RETRY_MS,
} from './limits.ts';
import {
  createEntry,
  type Entry,
  failure,
  leadsTo,
  openExisting,
  ParentDirectories,
  PlanOutdatedError,
  placeholderIdentity,
  removeIfEmpty,
  type SharedDirectory,
} from './placeholder-entries.ts';

type PlaceholderCalls = Pick<SandboxCalls, 'lock' | 'openCached' | 'removeAfterDeath'>;

/** Placeholders that exist and are locked. */
export interface HeldPlaceholders {
  /** The identity of each placeholder, in the form of {@link FileFacts.identity}. */
  readonly identities: ReadonlyMap<NativePath, string>;
  /** Must be called once, when no mount on them is in use. */
  release(): Promise<void>;
}

/**
 * Creates the empty files and directories that sandboxes need as mount points, and removes each after its last sandbox. Removing one
 * would remove the mounts on it in every sandbox. So every server that uses it holds a shared lock on it, and only a server that gets the
 * exclusive lock removes it. A placeholder that a dead server left is recognized by its mode; the next server that uses it removes it.
 * On a file system without locks, servers do not know of each other.
 *
 * Each start waits for this, and a round trip to the thread pool takes longer than the call itself. So only calls that may wait for a disk
 * go to a thread. Calls on a file that was just created, and calls that the kernel answers from memory, run synchronously.
 */
export class Placeholders {
  readonly #calls: PlaceholderCalls;
  /** By path. */
  readonly #held = new Map<NativePath, HeldPlaceholder>();
  readonly #shares = new FairShares(MAX_PLACEHOLDERS, 'temporary entries for sandboxes');
  readonly #descriptors: FairShares;

  /** `descriptors` are those that all sessions share. */
  constructor(calls: PlaceholderCalls, descriptors = new FairShares(Number.POSITIVE_INFINITY)) {
    this.#calls = calls;
    this.#descriptors = descriptors;
  }

  /**
   * Resolves when all of them exist. They count for the owner, who may hold a fair share of them; nothing is created beyond it. Rejects
   * with PlanOutdatedError when another entry is at the path, and with SandboxError when the placeholder cannot be created.
   */
  async hold(placeholders: readonly Placeholder[], owner: Owner = {}): Promise<HeldPlaceholders> {
    const hold: Hold = {
      owner,
      parents: new ParentDirectories(this.#calls),
      units: this.#takeUnits(placeholders, owner),
    };
    const results = await Promise.allSettled(
      placeholders.map((placeholder) => this.#hold(placeholder, hold)),
    );
    // Another start has created the entry in the meantime.
    for (const units of hold.units.values()) leaveAll(units, owner);
    const release = async () => {
      await Promise.all(
        results.map((result) => result.status === 'fulfilled' && this.#release(result.value, owner)),
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

  /** Takes what the placeholders need that do not exist yet: for all of them or for none. */
  #takeUnits(placeholders: readonly Placeholder[], owner: Owner): Map<NativePath, SharedUnits[]> {
    const taken = new Map<NativePath, SharedUnits[]>();
    try {
      for (const { path } of placeholders) {
        if (!this.#held.has(path)) taken.set(path, this.#takeFor(path, owner));
      }
      return taken;
    } catch (error) {
      for (const units of taken.values()) leaveAll(units, owner);
      throw error;
    }
  }

  #takeFor(path: NativePath, owner: Owner): SharedUnits[] {
    const taken: SharedUnits[] = [];
    const needs = [
      [this.#shares, 1],
      [this.#descriptors, DESCRIPTORS_PER_PLACEHOLDER],
    ] as const;
    for (const [shares, count] of needs) {
      const units = shares.take(owner, count);
      if (units === null) {
        leaveAll(taken, owner);
        throw unenforceable(
          `the sandbox needs a temporary entry ${textOfNativePath(path)}, but ${shares.refusal(owner, count)}; try again when other sandboxed programs have ended`,
        );
      }
      taken.push(units);
    }
    return taken;
  }

  async #hold(placeholder: Placeholder, hold: Hold): Promise<HeldPlaceholder> {
    const { path } = placeholder;
    const { owner } = hold;
    for (let held = this.#held.get(path); held !== undefined; held = this.#held.get(path)) {
      if (held.releasing !== null) {
        await held.releasing;
        continue;
      }
      held.users++;
      for (const units of held.units) units.join(owner);
      if (await this.#isInPlace(held, owner)) return held;
      // Another process has moved its directory. Those who use the placeholder there keep it.
      await this.#release(held, owner);
      if (this.#held.get(path) === held) this.#held.delete(path);
    }
    return await this.#make(placeholder, hold);
  }

  /** Whether a placeholder is still at its path. Throws, and does not count it for the owner, when it could not be created. */
  async #isInPlace({ path, kind, file, units }: HeldPlaceholder, owner: Owner): Promise<boolean> {
    try {
      const { identity } = await file;
      const at = await lstat(systemPath(path), { bigint: true }).catch(() => null);
      return at !== null && `${at.dev}:${at.ino}:${kind}` === identity;
    } catch (error) {
      leaveAll(units, owner);
      throw error;
    }
  }

  async #make(placeholder: Placeholder, { owner, parents, units: taken }: Hold): Promise<HeldPlaceholder> {
    const { path } = placeholder;
    const units = taken.get(path) ?? this.#takeFor(path, owner);
    taken.delete(path);
    const held: HeldPlaceholder = {
      ...placeholder,
      users: 1,
      units,
      file: this.#acquire(placeholder, parents),
      releasing: null,
    };
    this.#held.set(path, held);
    try {
      await held.file;
      return held;
    } catch (error) {
      this.#forget(held);
      leaveAll(units, owner);
      throw error;
    }
  }

  async #release(held: HeldPlaceholder, owner: Owner): Promise<void> {
    if (--held.users > 0) {
      leaveAll(held.units, owner);
      return;
    }
    held.releasing = this.#remove(held, owner).finally(() => this.#forget(held));
    await held.releasing;
  }

  #forget(held: HeldPlaceholder): void {
    if (this.#held.get(held.path) === held) this.#held.delete(held.path);
  }

  /** Registers the path with the watchdog before creating it, so that it is removed whenever the server dies. */
  async #acquire(placeholder: Placeholder, parents: ParentDirectories): Promise<OpenPlaceholder> {
    const { path } = placeholder;
    const parent = await parents.take(parentPath(path));
    let forget = () => {};
    try {
      forget = this.#announce(placeholder);
      const entry = { directory: parent.fd, name: lastName(path) };
      for (let attempt = 0; attempt < PLACEHOLDER_ATTEMPTS; attempt++) {
        const acquired = await this.#tryAcquire(placeholder, entry);
        if (acquired !== null) return { parent, entry, forget, ...acquired };
        await delay(PLACEHOLDER_RETRY_MS);
      }
      throw new PlanOutdatedError(`${textOfNativePath(path)} keeps changing`);
    } catch (error) {
      parent.release();
      forget();
      throw error;
    }
  }

  #announce({ path, kind }: Placeholder): () => void {
    try {
      return this.#calls.removeAfterDeath(path, kind);
    } catch (error) {
      throw failure(error, path);
    }
  }

  /** Null when another server is removing it at this moment. */
  async #tryAcquire(placeholder: Placeholder, entry: Entry): Promise<AcquiredFile | null> {
    const made = await createEntry(placeholder, entry);
    const fd = made === null ? await openExisting(placeholder, entry) : made.fd;
    if (fd === null) return null;
    try {
      if (this.#lock(fd, 'shared') && leadsTo(entry, fd)) {
        return { fd, identity: await placeholderIdentity(placeholder, fd, made !== null) };
      }
    } catch (error) {
      if (made !== null) await this.#removeUnused(entry, placeholder.kind, fd);
      closeSync(fd);
      throw error;
    }
    closeSync(fd);
    return null;
  }

  /** Resolves when it is removed. Closes it in the background: the file system frees a removed file on close, which may take time. */
  async #remove(held: HeldPlaceholder, owner: Owner): Promise<void> {
    const { parent, entry, fd, forget } = await held.file;
    await this.#removeUnused(entry, held.kind, fd);
    close(fd, () => leaveAll(held.units, owner));
    parent.release();
    forget();
  }

  /** Removes the open entry unless another server uses it. Opens nothing, so that it works without free descriptors. */
  async #removeUnused(entry: Entry, kind: Placeholder['kind'], fd: number): Promise<void> {
    try {
      if (this.#lock(fd, 'exclusive') && leadsTo(entry, fd)) await removeIfEmpty(entry, kind, fd);
    } catch {
      // Its directory may be gone or no longer accessible. That is not an error of the sandbox.
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

/** One call of {@link Placeholders.hold}. */
interface Hold {
  readonly owner: Owner;
  readonly parents: ParentDirectories;
  /** What was taken for entries that are yet to be created. */
  readonly units: Map<NativePath, SharedUnits[]>;
}

function leaveAll(units: readonly SharedUnits[], owner: Owner): void {
  for (const unit of units) unit.leave(owner);
}

interface HeldPlaceholder extends Placeholder {
  users: number;
  /** Every owner of a user has joined them. */
  readonly units: readonly SharedUnits[];
  readonly file: Promise<OpenPlaceholder>;
  /** Set while it is being removed. */
  releasing: Promise<void> | null;
}

interface AcquiredFile {
  /** Open and locked. */
  readonly fd: number;
  readonly identity: string;
}

/** A placeholder that is in use. */
interface OpenPlaceholder extends AcquiredFile {
  readonly parent: SharedDirectory;
  readonly entry: Entry;
  /** Tells the watchdog that it is removed. */
  readonly forget: () => void;
}
