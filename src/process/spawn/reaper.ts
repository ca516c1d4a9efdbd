import type { Libc } from '../../native/libc.ts';
import { MAX_TIMER_MS } from '../limits.ts';
import type { ExitStatus } from './spawner.ts';

/**
 * Collects the exit statuses of the children started through libc, and of no others: libuv has children of its own. An exit costs
 * the same however many children live. The event loop stays alive while a child is watched that keeps it so. Orphaned descendants,
 * which fall to this process when it is pid 1 of a container, are collected too so that they do not stay zombies.
 */
export class Reaper {
  readonly #libc: Pick<Libc, 'findExitedChild' | 'reap'>;
  readonly #watched = new Map<number, Watch>();
  readonly #isDescendant: (pid: number) => boolean;
  #keepers = 0;
  #keepAlive: NodeJS.Timeout | null = null;

  constructor(libc: Pick<Libc, 'findExitedChild' | 'reap'>, isDescendant: (pid: number) => boolean) {
    this.#libc = libc;
    this.#isDescendant = isDescendant;
    process.on('SIGCHLD', this.#collect);
  }

  /** Reports the exit of a child once, in the call that reaps it, which is never this one. */
  watch(pid: number, onExit: (status: ExitStatus) => void, options: { keepsLoopAlive: boolean }): void {
    this.#watched.set(pid, { onExit, ...options });
    this.#hold(options.keepsLoopAlive ? 1 : 0);
    // Its signal may have come and gone.
    setImmediate(() => this.#reap(pid));
  }

  /** Whether the event loop stays alive for a child from now on; one that is not watched any more has no say. */
  keepLoopAlive(pid: number, keep: boolean): void {
    const watch = this.#watched.get(pid);
    if (watch === undefined || watch.keepsLoopAlive === keep) return;
    watch.keepsLoopAlive = keep;
    this.#hold(keep ? 1 : -1);
  }

  /** Stops listening; children that still live are never reaped. */
  close(): void {
    process.off('SIGCHLD', this.#collect);
    this.#hold(-this.#keepers);
    this.#watched.clear();
  }

  /** One signal may stand for several exits. */
  readonly #collect = (): void => {
    for (let pid = this.#libc.findExitedChild(); pid !== null; pid = this.#libc.findExitedChild()) {
      if (this.#watched.has(pid) ? this.#reap(pid) : this.#reapOrphan(pid)) continue;
      // A foreign child hides what is behind it until its owner has reaped it.
      for (const own of this.#watched.keys()) this.#reap(own);
      return;
    }
  };

  #reap(pid: number): boolean {
    const watch = this.#watched.get(pid);
    if (watch === undefined) return false;
    const status = this.#libc.reap(pid);
    if (status === null) return false;
    this.#watched.delete(pid);
    this.#hold(watch.keepsLoopAlive ? -1 : 0);
    watch.onExit(status);
    return true;
  }

  #reapOrphan(pid: number): boolean {
    return this.#isDescendant(pid) && this.#libc.reap(pid) !== null;
  }

  /** A signal listener alone does not keep the event loop alive. */
  #hold(change: number): void {
    this.#keepers += change;
    if (this.#keepers > 0) this.#keepAlive ??= setInterval(() => {}, MAX_TIMER_MS);
    else if (this.#keepAlive !== null) {
      clearInterval(this.#keepAlive);
      this.#keepAlive = null;
    }
  }
}

interface Watch {
  readonly onExit: (status: ExitStatus) => void;
  keepsLoopAlive: boolean;
}
