import type { RunningHelper } from './running-helper.ts';
import type { HelperFileSystem } from './wire/helper-file-system.ts';

/** What the pool wants to know of its helpers. */
export interface HelperNews {
  /** Nobody uses it at the moment. */
  onIdle(helper: PooledHelper): void;
  /** Nothing is left of it, for whatever reason. */
  onGone(helper: PooledHelper): void;
}

/** A helper and who uses it: each operation that is under way, and each file that is open. */
export class PooledHelper {
  readonly #running: RunningHelper;
  readonly #idleMs: number;
  readonly #news: HelperNews;
  #uses = 0;
  #retired = false;
  #ending = false;
  #idleTimer: NodeJS.Timeout | null = null;
  #idleSince = performance.now();

  constructor(running: RunningHelper, idleMs: number, news: HelperNews) {
    this.#running = running;
    this.#idleMs = idleMs;
    this.#news = news;
    void running.ended.then(() => {
      this.#stopTimer();
      news.onGone(this);
    });
  }

  get files(): HelperFileSystem {
    return this.#running.files;
  }

  get pid(): number {
    return this.#running.pid;
  }

  /** Whether more may use it. */
  get usable(): boolean {
    return !this.#retired && !this.#ending && this.#running.works;
  }

  get isIdle(): boolean {
    return this.#uses === 0;
  }

  get idleSince(): number {
    return this.#idleSince;
  }

  /** False when it is no longer usable. */
  enter(): boolean {
    if (!this.usable) return false;
    this.#uses++;
    this.#stopTimer();
    return true;
  }

  leave(): void {
    if (--this.#uses > 0) return;
    this.#idleSince = performance.now();
    if (!this.usable) {
      void this.end();
      return;
    }
    this.#idleTimer = setTimeout(() => void this.end(), this.#idleMs);
    this.#idleTimer.unref();
    this.#news.onIdle(this);
  }

  /** Nobody else may use it; it ends when those are done who do. */
  retire(): void {
    this.#retired = true;
    if (this.#uses === 0) void this.end();
  }

  /** Ends it at once. Resolves when nothing is left of it. */
  async end(): Promise<void> {
    this.#ending = true;
    this.#stopTimer();
    await this.#running.end('was ended');
  }

  #stopTimer(): void {
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#idleTimer = null;
  }
}
