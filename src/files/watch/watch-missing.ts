import { lstat } from 'node:fs/promises';
import type { Semaphore } from '../../base/semaphore.ts';
import { errorCode } from '../errors.ts';
import { MAX_MISSING_DIRECTORIES, MAX_MISSING_PATHS } from '../limits.ts';
import { childPath, type NativePath, nativePathOfBytes, systemPath } from '../native-path.ts';
import { processEventQueue, type WatchEventQueue, type WatchEventSource } from './event-queue.ts';

/**
 * The one watch of a connection for paths that do not exist yet. Watch ids are generations: only one that is higher than all
 * before counts, and it ends the watch before it, whatever comes of its own.
 */
export class MissingWatch {
  readonly #slots: Semaphore;
  readonly #notices: () => Promise<WatchEventQueue>;
  #generation = 0;
  #current: PathChains | null = null;

  /** `slots` are for what is with the system at once: a look may hang on a dead mount, and another watch may come meanwhile. */
  constructor(slots: Semaphore, notices: () => Promise<WatchEventQueue> = processEventQueue) {
    this.#slots = slots;
    this.#notices = notices;
  }

  /**
   * Whether the paths are watched from now on: all of `missing` are absent and `present`, if any, exists. `missing` is null when
   * one of the paths cannot be of this host. A path through a symbolic link is not watched, since what the link leads to gives no
   * sign; neither are more paths than {@link MAX_MISSING_PATHS} or such as need more than {@link MAX_MISSING_DIRECTORIES}
   * directories. The caller then has to look for itself.
   *
   * `changed` is called once, after the answer, when a path or one of its ancestors appears, disappears or changes; entries beside
   * them do not count. It is also called when events may have been lost.
   */
  async arm(
    watchId: number,
    missing: readonly NativePath[] | null,
    present: NativePath | null,
    changed: () => void,
  ): Promise<boolean> {
    if (watchId <= this.#generation) return false;
    this.#generation = watchId;
    this.#current?.close();
    this.#current = null;
    if (missing === null || missing.length === 0 || missing.length > MAX_MISSING_PATHS) return false;

    const notices = await this.#notices();
    if (this.#generation !== watchId) return false;
    const chains = new PathChains(notices, this.#slots, changed);
    this.#current = chains;
    if (await allAsSaid(chains, missing, present)) return chains.answer();
    chains.close();
    return false;
  }

  dispose(): void {
    this.#generation = Number.POSITIVE_INFINITY;
    this.#current?.close();
    this.#current = null;
  }
}

async function allAsSaid(
  chains: PathChains,
  missing: readonly NativePath[],
  present: NativePath | null,
): Promise<boolean> {
  if (present !== null && (await chains.follow(present)) !== 'present') return false;
  for (const path of missing) {
    if ((await chains.follow(path)) !== 'missing') return false;
  }
  return true;
}

/** The directories on the way to some paths, each watched for the next name on the way. */
class PathChains {
  readonly #notices: WatchEventQueue;
  readonly #slots: Semaphore;
  readonly #changed: () => void;
  readonly #closing = new AbortController();
  readonly #directories = new Map<
    NativePath,
    { readonly names: Set<string>; readonly source: WatchEventSource }
  >();
  readonly #forget: () => void;
  #state: 'arming' | 'noticed' | 'armed' | 'closed' = 'arming';

  constructor(notices: WatchEventQueue, slots: Semaphore, changed: () => void) {
    this.#notices = notices;
    this.#slots = slots;
    this.#changed = changed;
    this.#forget = notices.onPossibleLoss(() => this.#notice());
  }

  /** Watches the way to the path as far as it exists. Every name is watched before it is looked at, so none slips through. */
  async follow(path: NativePath): Promise<'present' | 'missing' | 'unwatchable'> {
    let directory = nativePathOfBytes('/');
    const names = path.split('/').filter((name) => name !== '');
    for (const [index, name] of names.entries()) {
      if (!this.#watch(directory, name)) return 'unwatchable';
      const child = childPath(directory, name);
      const found = await this.#look(child);
      if (found === 'missing') return 'missing';
      if (found === 'directory' || (found === 'file' && index === names.length - 1)) directory = child;
      else return 'unwatchable';
    }
    return 'present';
  }

  /** The watch stands; what was noticed on the way is told when the caller has had time to answer. False when it was closed. */
  answer(): boolean {
    if (this.#state === 'closed') return false;
    const noticed = this.#state === 'noticed';
    this.#state = 'armed';
    if (noticed) setImmediate(() => this.#notice());
    return true;
  }

  close(): void {
    this.#state = 'closed';
    this.#closing.abort();
    this.#forget();
    for (const { source } of this.#directories.values()) source.close();
    this.#directories.clear();
  }

  async #look(path: NativePath): Promise<Found> {
    try {
      await this.#slots.acquire(this.#closing.signal);
    } catch {
      return 'unwatchable';
    }
    return await kindOf(path).finally(() => this.#slots.release());
  }

  #watch(directory: NativePath, name: string): boolean {
    if (this.#state === 'closed') return false;
    const known = this.#directories.get(directory);
    if (known !== undefined) {
      known.names.add(name);
      return true;
    }
    if (this.#directories.size >= MAX_MISSING_DIRECTORIES) return false;
    const names = new Set([name]);
    try {
      const source = this.#notices.open(directory, (_kind, noticed) => {
        if (noticed === null || names.has(noticed)) this.#notice();
      });
      this.#directories.set(directory, { names, source });
      return true;
    } catch {
      return false;
    }
  }

  #notice(): void {
    if (this.#state === 'arming') this.#state = 'noticed';
    if (this.#state !== 'armed') return;
    this.close();
    this.#changed();
  }
}

type Found = 'directory' | 'file' | 'missing' | 'unwatchable';

async function kindOf(path: NativePath): Promise<Found> {
  try {
    const found = await lstat(systemPath(path));
    if (found.isSymbolicLink()) return 'unwatchable';
    return found.isDirectory() ? 'directory' : 'file';
  } catch (error) {
    return errorCode(error) === 'ENOENT' ? 'missing' : 'unwatchable';
  }
}
