import {
  KILL_TREE_DEADLINE_MS,
  SWEEP_REST_FACTOR,
  SWEEP_RETRY_MAX_MS,
  SWEEP_RETRY_MIN_MS,
} from '../limits.ts';
import { killProcess, listPids, readProcess } from './process-table.ts';
import { TAGS_PER_SERVER } from './process-tagger.ts';

/**
 * Kills every process that carries a tag. All requests share one scan of the process table at a time. A scan that finds no process
 * with a tag settles its request. The tag protects other processes with a reused pid.
 */
export class TaggedProcessSweep {
  readonly #readTag: (pid: number) => bigint | null;
  readonly #requests = new Map<bigint, Request>();
  #next: { readonly timer: NodeJS.Timeout; readonly at: number } | null = null;
  #retryMs = SWEEP_RETRY_MIN_MS;
  #restUntil = 0;

  constructor(readTag: (pid: number) => bigint | null) {
    this.#readTag = readTag;
  }

  /**
   * Resolves when a scan begun after this call finds no living process with this tag, or with any tag of this server. Also resolves
   * after KILL_TREE_DEADLINE_MS, when the rest does not react to SIGKILL.
   */
  kill(tagOrServerTag: bigint): Promise<void> {
    const request = this.#requests.get(tagOrServerTag) ?? newRequest();
    this.#requests.set(tagOrServerTag, request);
    this.#retryMs = SWEEP_RETRY_MIN_MS;
    this.#schedule();
    return request.settled.promise;
  }

  /** Whether a living process with this tag is in the process group. */
  hasGroupMember(tag: bigint, group: number): boolean {
    return listPids().some((pid) => this.#readTag(pid) === tag && readProcess(pid)?.group === group);
  }

  /** Schedules a scan after the current retry delay and the due pause; an earlier one that is already scheduled stays. */
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
      const tag = this.#readTag(pid);
      if (tag !== null) this.#killIfWanted(pid, tag);
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

  #killIfWanted(pid: number, tag: bigint): void {
    const requests = [this.#requests.get(tag), this.#requests.get(tag / TAGS_PER_SERVER)];
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
