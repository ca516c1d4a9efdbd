import { readFileSync } from 'node:fs';
import type { Libc } from '../../native/libc.ts';
import { killProcess, listPids } from '../tree/process-table.ts';
import { type ControlGroups, findControlGroups, unavailable } from './control-groups.ts';
import type { SessionLimits } from './resource-limits.ts';
import { limitsAnything, NO_RESOURCE_LIMITS, type ResourceLimits } from './resource-limits.ts';

/** The limits of a running program. */
export interface AppliedLimits {
  /** Whether the memory limit has killed it. Known only with a control group; otherwise allocations of the program fail. */
  outOfMemory(): boolean;
  /** Called when the program and everything it started are gone. */
  release(): void;
}

/** Limits prepared for a program before it starts. */
interface PreparedLimits {
  /** Applies the limits to a program that has just started and to everything it has started since. */
  apply(tree: { readonly pid: number; readonly tag: bigint | null }): AppliedLimits;
  /** Undoes the preparation when the start has failed. */
  cancel(): void;
}

/**
 * Applies resource limits to programs: with a control group where this process may create one, otherwise with a memory rlimit for
 * each process. A program runs for an instant before its limits apply. What it starts in that instant carries its tag and gets the
 * limits too. A program whose limits cannot be set is killed.
 */
export class ResourceLimiter {
  readonly #libc: Pick<Libc, 'lowerLimit'>;
  readonly #readTag: (pid: number) => bigint | null;
  readonly #find: typeof findControlGroups;
  #groups: ReturnType<typeof findControlGroups> | null = null;

  constructor(
    libc: Pick<Libc, 'lowerLimit'>,
    readTag: (pid: number) => bigint | null,
    find = findControlGroups,
  ) {
    this.#libc = libc;
    this.#readTag = readTag;
    this.#find = find;
  }

  /**
   * Null when neither the program nor its session has limits. Throws ProcessError for a limit that cannot be enforced on this
   * system.
   */
  prepare(
    limits: ResourceLimits = NO_RESOURCE_LIMITS,
    session: SessionLimits | null = null,
  ): PreparedLimits | null {
    if (session === null && !limitsAnything(limits)) return null;
    this.#groups ??= this.#find();
    if (!('unavailableReason' in this.#groups)) return this.#groupLimits(this.#groups, limits, session);
    if (session !== null || limits.pids !== null || limits.cpuPercent !== null) {
      throw unavailable(this.#groups.unavailableReason);
    }
    return this.#memoryLimit(BigInt(limits.memoryBytes!));
  }

  /** Removes the remaining groups, after all programs have ended. */
  async close(): Promise<void> {
    if (this.#groups !== null && !('unavailableReason' in this.#groups)) await this.#groups.close();
  }

  #groupLimits(groups: ControlGroups, limits: ResourceLimits, session: SessionLimits | null): PreparedLimits {
    const group = groups.create(limits, session);
    return {
      apply: ({ pid, tag }) => {
        this.#limitOrKill(pid, tag, (member) => group.add(member));
        return { outOfMemory: () => group.outOfMemory(), release: () => group.remove() };
      },
      cancel: () => group.remove(),
    };
  }

  #memoryLimit(bytes: bigint): PreparedLimits {
    return {
      apply: ({ pid, tag }) => {
        this.#limitOrKill(pid, tag, (member) => this.#lowerMemory(member, bytes));
        return { outOfMemory: () => false, release: () => {} };
      },
      cancel: () => {},
    };
  }

  /** Returns whether the process did not have the limit yet. Throws when it keeps running without it. */
  #lowerMemory(pid: number, bytes: bigint): boolean {
    if (this.#libc.lowerLimit(pid, RLIMIT_DATA, bytes)) return true;
    if (exceedsMemory(pid, bytes)) throw new Error('the limit of a process cannot be changed');
    return false;
  }

  /** Kills the tree if one process escapes its limit, for example a program that changes its user as it starts. */
  #limitOrKill(pid: number, tag: bigint | null, limit: (pid: number) => boolean): void {
    try {
      this.#applyToAll(pid, tag, limit);
    } catch {
      this.#applyToAll(pid, tag, (member) => {
        killProcess(member);
        return true;
      });
    }
  }

  /** Repeats until a scan finds no process without the limit. What a limited process starts inherits it. */
  #applyToAll(pid: number, tag: bigint | null, limit: (pid: number) => boolean): void {
    limit(pid);
    if (tag === null) return;
    const limited = new Set([pid]);
    for (let grown = true; grown; ) {
      grown = false;
      for (const other of listPids()) {
        if (limited.has(other) || this.#readTag(other) !== tag) continue;
        limited.add(other);
        grown = limit(other) || grown;
      }
    }
  }
}

/** Whether a process may use, or allow itself, more private memory than this; false when it is gone. */
function exceedsMemory(pid: number, bytes: bigint): boolean {
  try {
    const limits = readFileSync(`/proc/${pid}/limits`, 'latin1');
    const [, hard = '0'] = /^Max data size +\w+ +(\w+)/m.exec(limits) ?? [];
    return hard === 'unlimited' || BigInt(hard) > bytes;
  } catch {
    return false;
  }
}

/** Private writable memory of one process, mapped or from the heap. Reserved address space does not count. */
const RLIMIT_DATA = 2;
