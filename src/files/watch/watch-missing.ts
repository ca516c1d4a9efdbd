import { lstat } from 'node:fs/promises';
import type { Semaphore } from '../../base/semaphore.ts';
import { errorCode } from '../errors.ts';
import { MAX_MISSING_DIRECTORIES, MAX_MISSING_PATHS } from '../limits.ts';
import { childPath, type NativePath, nativePathOfBytes, systemPath } from '../native-path.ts';
import { processEventQueue, type WatchEventQueue, type WatchEventSource } from './event-queue.ts';

/**
 * The watch of a connection for paths that do not exist yet. Watch ids are generations: only an id higher than all earlier ones
 * counts. It ends the previous watch, even if the new one fails.
 */
export class MissingWatch {
  readonly #slots: Semaphore;
  readonly #events: () => Promise<WatchEventQueue>;
  #generation = 0;
  #current: PathChains | null = null;

  /** `slots` limits concurrent system calls: a check may hang on a dead mount while another watch starts. */
  constructor(slots: Semaphore, events: () => Promise<WatchEventQueue> = processEventQueue) {
    this.#slots = slots;
    this.#events = events;
  }

  /**
   * Returns whether the paths are watched from now on. That requires that all of `missing` are absent and `present`, if given,
   * exists. `missing` is null when one of the paths is not of this host. A path through a symbolic link is not watched, because
   * changes at the link's target cause no event. Neither are more than {@link MAX_MISSING_PATHS} paths, or paths that need more
   * than {@link MAX_MISSING_DIRECTORIES} directories. When the result is false the caller has to check by itself.
   *
   * `changed` is called once, after the result, when a path or one of its ancestors appears, disappears or changes. Their siblings
   * do not count. It is also called when events may have been lost.
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

    const events = await this.#events();
    if (this.#generation !== watchId) return false;
    const chains = new PathChains(events, this.#slots, changed);
    this.#current = chains;
    if (await allAsExpected(chains, missing, present)) return chains.answer();
    chains.close();
    return false;
  }

  dispose(): void {
    this.#generation = Number.POSITIVE_INFINITY;
    this.#current?.close();
    this.#current = null;
  }
}

async function allAsExpected(
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

/** The directories on the way to some paths, each watched for the next name of the path. */
class PathChains {
  readonly #events: WatchEventQueue;
  readonly #slots: Semaphore;
  readonly #changed: () => void;
  readonly #closing = new AbortController();
  readonly #directories = new Map<
    NativePath,
    { readonly names: Set<string>; readonly source: WatchEventSource }
  >();
  readonly #forget: () => void;
  #state: 'arming' | 'changed' | 'armed' | 'closed' = 'arming';

  constructor(events: WatchEventQueue, slots: Semaphore, changed: () => void) {
    this.#events = events;
    this.#slots = slots;
    this.#changed = changed;
    this.#forget = events.onPossibleLoss(() => this.#onEvent());
  }

  /** Watches the existing part of a path. Every name is watched before it is checked, so that no change is missed. */
  async follow(path: NativePath): Promise<'present' | 'missing' | 'unwatchable'> {
    let directory = nativePathOfBytes('/');
    const names = path.split('/').filter((name) => name !== '');
    for (const [index, name] of names.entries()) {
      if (!this.#watch(directory, name)) return 'unwatchable';
      const child = childPath(directory, name);
      const found = await this.#check(child);
      if (found === 'missing') return 'missing';
      if (found === 'directory' || (found === 'file' && index === names.length - 1)) directory = child;
      else return 'unwatchable';
    }
    return 'present';
  }

  /**
   * Activates the watch. Reports an event that happened meanwhile after the caller had time to respond. False when the watch was
   * closed.
   */
  answer(): boolean {
    if (this.#state === 'closed') return false;
    const hasChanged = this.#state === 'changed';
    this.#state = 'armed';
    if (hasChanged) setImmediate(() => this.#onEvent());
    return true;
  }

  close(): void {
    this.#state = 'closed';
    this.#closing.abort();
    this.#forget();
    for (const { source } of this.#directories.values()) source.close();
    this.#directories.clear();
  }

  async #check(path: NativePath): Promise<Found> {
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
      const source = this.#events.open(directory, (_kind, changedName) => {
        if (changedName === null || names.has(changedName)) this.#onEvent();
      });
      this.#directories.set(directory, { names, source });
      return true;
    } catch {
      return false;
    }
  }

  #onEvent(): void {
    if (this.#state === 'arming') this.#state = 'changed';
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
