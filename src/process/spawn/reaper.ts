import type { Libc } from '../../native/libc.ts';
import { MAX_TIMER_MS } from '../limits.ts';
import type { ExitStatus } from './spawner.ts';

/**
 * Collects the exit statuses of children started through libc, and of no others: libuv has its own children. The cost of an exit
 * does not depend on the number of children. The event loop stays alive while a watched child keeps it alive. As pid 1 of a
 * container this process inherits orphaned descendants; it reaps them too, so that they do not stay zombies.
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

  /** Reports the exit of a child once, in the call that reaps it, which is never this call. */
  watch(pid: number, onExit: (status: ExitStatus) => void, options: { keepsLoopAlive: boolean }): void {
    this.#watched.set(pid, { onExit, ...options });
    this.#hold(options.keepsLoopAlive ? 1 : 0);
    // The child may have exited before this call, and its SIGCHLD is gone.
    setImmediate(() => this.#reap(pid));
  }

  /** Sets whether a watched child keeps the event loop alive. */
  keepLoopAlive(pid: number, keep: boolean): void {
    const watch = this.#watched.get(pid);
    if (watch === undefined || watch.keepsLoopAlive === keep) return;
    watch.keepsLoopAlive = keep;
    this.#hold(keep ? 1 : -1);
  }

  /** Stops listening. Children that still run are never reaped. */
  close(): void {
    process.off('SIGCHLD', this.#collect);
    this.#hold(-this.#keepers);
    this.#watched.clear();
  }

  /** One SIGCHLD can stand for several exits. */
  readonly #collect = (): void => {
    for (let pid = this.#libc.findExitedChild(); pid !== null; pid = this.#libc.findExitedChild()) {
      if (this.#watched.has(pid) ? this.#reap(pid) : this.#reapOrphan(pid)) continue;
      // A child of libuv hides those behind it until its owner has reaped it.
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
