import { readFileSync } from 'node:fs';
import type { Libc } from '../../native/libc.ts';
import { killProcess, listPids } from '../tree/process-table.ts';
import { type ControlGroups, findControlGroups, unavailable } from './control-groups.ts';
import type { SessionLimits } from './resource-limits.ts';
import { limitsAnything, NO_RESOURCE_LIMITS, type ResourceLimits } from './resource-limits.ts';

/** Limits that hold for a running program. */
export interface AppliedLimits {
  /** Whether the memory limit has killed it. Only a control group tells; under other limits a program sees its memory refused. */
  outOfMemory(): boolean;
  /** To be called when the program and what it started are gone. */
  release(): void;
}

/** Limits that are ready for a program that is about to start. */
export interface PreparedLimits {
  /** Puts the limits on a program that has just started and on what it has started since. */
  apply(tree: { readonly pid: number; readonly tag: bigint | null }): AppliedLimits;
  /** Gives the preparations back when the start has failed. */
  cancel(): void;
}

/**
 * Puts limits of the system on programs: a control group where this process may make one, else a limit of the memory of each
 * process by itself. A program runs for an instant before its limits hold; what it started in that instant carries its tag and
 * is brought under them too. A program on which the system does not let them be put is killed.
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
   * Null when nothing is limited: neither the program nor all of its session together. Throws ProcessError for a limit that cannot be
   * enforced here.
   */
  prepare(
    limits: ResourceLimits = NO_RESOURCE_LIMITS,
    session: SessionLimits | null = null,
  ): PreparedLimits | null {
    if (session === null && !limitsAnything(limits)) return null;
    this.#groups ??= this.#find();
    if (!('obstacle' in this.#groups)) return this.#groupLimits(this.#groups, limits, session);
    if (session !== null || limits.pids !== null || limits.cpuPercent !== null) {
      throw unavailable(this.#groups.obstacle);
    }
    return this.#memoryLimit(BigInt(limits.memoryBytes!));
  }

  /** Gives back what is left of the groups; to be called when no program is. */
  async close(): Promise<void> {
    if (this.#groups !== null && !('obstacle' in this.#groups)) await this.#groups.close();
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

  /** Whether the limit is new to the process. Throws when it goes on without. */
  #lowerMemory(pid: number, bytes: bigint): boolean {
    if (this.#libc.lowerLimit(pid, RLIMIT_DATA, bytes)) return true;
    if (exceedsMemory(pid, bytes)) throw new Error('the limit of a process cannot be changed');
    return false;
  }

  /** A limit that one process escapes is none: a program that changes its user as it starts may be out of reach, for instance. */
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

  /** Repeats until a look finds none without the limit. What a limited process starts has it from the beginning. */
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

/** Whether a process may use more private memory than this, or allow itself to; false when it is gone. */
function exceedsMemory(pid: number, bytes: bigint): boolean {
  try {
    const limits = readFileSync(`/proc/${pid}/limits`, 'latin1');
    const [, hard = '0'] = /^Max data size +\w+ +(\w+)/m.exec(limits) ?? [];
    return hard === 'unlimited' || BigInt(hard) > bytes;
  } catch {
    return false;
  }
}

/** Private writable memory, mapped or from the heap, of one process. What is only reserved does not count. */
const RLIMIT_DATA = 2;
