import { LAUNCH_CACHE_ENTRIES, LAUNCH_CACHE_MS } from '../limits.ts';
import type { SpawnSpec } from './spawner.ts';

/**
 * Remembers for a moment which directories and programs were found in order, so that commands that follow each other closely are
 * not checked again. It only ever saves the check: a start that fails all the same is checked anew to say why. Bare names are not
 * remembered, because what they mean can change at any time.
 */
export class LaunchCache {
  readonly #now: () => number;
  /** Key to the time of the check, the oldest first. */
  readonly #checkedAt = new Map<string, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Whether the same directory and program were in order a moment ago. */
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
