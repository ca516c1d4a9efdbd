import {
  KILL_TREE_DEADLINE_MS,
  SWEEP_REST_FACTOR,
  SWEEP_RETRY_MAX_MS,
  SWEEP_RETRY_MIN_MS,
} from '../limits.ts';
import { BRANDS_PER_TAG } from './brand.ts';
import { killProcess, listPids, readProcess } from './process-table.ts';

/**
 * Kills every process that carries a brand. All requests share one scan of the process table at a time, and a scan that finds
 * nothing of a brand settles its request; the brand itself guards against a pid that was used again.
 */
export class BrandSweep {
  readonly #readBrand: (pid: number) => bigint | null;
  readonly #requests = new Map<bigint, Request>();
  #next: { readonly timer: NodeJS.Timeout; readonly at: number } | null = null;
  #retryMs = SWEEP_RETRY_MIN_MS;
  #restUntil = 0;

  constructor(readBrand: (pid: number) => bigint | null) {
    this.#readBrand = readBrand;
  }

  /**
   * Resolves when a scan begun after this call finds no living process with this brand, or with any brand of this tag; or after
   * KILL_TREE_DEADLINE_MS, when what is left does not react to SIGKILL.
   */
  kill(brandOrTag: bigint): Promise<void> {
    const request = this.#requests.get(brandOrTag) ?? newRequest();
    this.#requests.set(brandOrTag, request);
    this.#retryMs = SWEEP_RETRY_MIN_MS;
    this.#schedule();
    return request.settled.promise;
  }

  /** Whether a living process with this brand is in the process group. */
  hasGroupMember(brand: bigint, group: number): boolean {
    return listPids().some((pid) => this.#readBrand(pid) === brand && readProcess(pid)?.group === group);
  }

  /** Has a scan begin after the current wait and the rest that is due; one that is to begin earlier stands. */
  #schedule(): void {
    const now = performance.now();
    const at = Math.max(now + this.#retryMs, this.#restUntil);
    if (this.#next !== null && this.#next.at <= at) return;
    clearTimeout(this.#next?.timer);
    this.#next = { at, timer: setTimeout(() => this.#scan(), at - now) };
  }

  #scan(): void {
    this.#next = null;
    const started = performance.now();
    for (const pid of listPids()) {
      const brand = this.#readBrand(pid);
      if (brand !== null) this.#killIfWanted(pid, brand);
    }
    const ended = performance.now();
    this.#restUntil = ended + (ended - started) * SWEEP_REST_FACTOR;
    for (const [key, request] of this.#requests) {
      if (request.found && ended < request.deadline) {
        request.found = false;
        continue;
      }
      this.#requests.delete(key);
      request.settled.resolve();
    }
    if (this.#requests.size === 0) return;
    this.#schedule();
    this.#retryMs = Math.min(this.#retryMs * 2, SWEEP_RETRY_MAX_MS);
  }

  #killIfWanted(pid: number, brand: bigint): void {
    const requests = [this.#requests.get(brand), this.#requests.get(brand / BRANDS_PER_TAG)];
    for (const request of requests) {
      if (request === undefined || readProcess(pid) === null) continue;
      request.found = true;
      killProcess(pid);
    }
  }
}

interface Request {
  found: boolean;
  readonly deadline: number;
  readonly settled: { readonly promise: Promise<void>; readonly resolve: () => void };
}

function newRequest(): Request {
  let resolve = () => {};
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { found: false, deadline: performance.now() + KILL_TREE_DEADLINE_MS, settled: { promise, resolve } };
}
