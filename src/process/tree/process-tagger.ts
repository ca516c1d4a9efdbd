import { randomInt } from 'node:crypto';
import type { Libc } from '../../native/libc.ts';

/**
 * Tags every process that descends from a started program, so that the server finds it wherever it moved. The tag is the soft limit
 * RLIMIT_RTTIME: fork and exec pass it on, setsid keeps it, every process may read it, and values of thousands of years have no
 * effect. It has nine digits for the server, then nine for the program. A process that sets this limit itself, or that has changed
 * its user, is no longer tagged. See getrlimit(2).
 */
export class ProcessTagger {
  /** The first nine digits of every tag of this server. */
  readonly serverTag = BigInt(randomInt(10 ** (SERVER_TAG_DIGITS - 1), 10 ** SERVER_TAG_DIGITS));
  readonly #libc: LimitCalls;
  #count = 0n;

  constructor(libc: LimitCalls) {
    this.#libc = libc;
  }

  /** Runs a synchronous spawn so that the program is tagged; the tag is null where the system does not allow it. */
  start(spawn: () => number): { readonly pid: number; readonly tag: bigint | null } {
    this.#count = (this.#count + 1n) % TAGS_PER_SERVER;
    const tag = this.serverTag * TAGS_PER_SERVER + this.#count;
    const pid = withSoftLimit(this.#libc, RLIMIT_RTTIME, tag, spawn);
    return { pid, tag: this.read(pid) === tag ? tag : null };
  }

  /** Runs a synchronous spawn so that the program has no tag, not even one that this server inherited. */
  startUntagged(spawn: () => number): number {
    return withSoftLimit(this.#libc, RLIMIT_RTTIME, LIMIT_INFINITY, spawn);
  }

  /** The tag of any process, of this or another server; null when it has none or must not be read. */
  readonly read = (pid: number): bigint | null => {
    const soft = this.#libc.readLimit(pid, RLIMIT_RTTIME)?.[0];
    return soft === undefined || soft === LIMIT_INFINITY ? null : soft;
  };

  /** Whether a process, possibly a zombie, descends from a program of this server. */
  readonly isOurs = (pid: number): boolean => (this.read(pid) ?? 0n) / TAGS_PER_SERVER === this.serverTag;
}

/** Tags per server; dividing a tag by it gives the server tag. */
export const TAGS_PER_SERVER = 10n ** 9n;

/** Runs `action` so that what it starts writes no core dumps. */
export function withoutCoreDumps<T>(libc: LimitCalls, action: () => T): T {
  return withSoftLimit(libc, RLIMIT_CORE, 0n, action);
}

/** Disables core files of this process. Keeps the hard limit, so that a program can enable its own. */
export function forbidCoreDumps(libc: LimitCalls): void {
  const [soft = 0n, hard = 0n] = libc.readLimit(0, RLIMIT_CORE) ?? [];
  if (soft !== 0n) libc.writeLimit(RLIMIT_CORE, 0n, hard);
}

type LimitCalls = Pick<Libc, 'readLimit' | 'writeLimit'>;

const SERVER_TAG_DIGITS = 9;
const RLIMIT_CORE = 4;
const RLIMIT_RTTIME = 15;
/** RLIM_INFINITY of prlimit64. */
const LIMIT_INFINITY = 2n ** 64n - 1n;

/** Changes a soft limit of this process while a synchronous action runs; does nothing where the system forbids the value. */
function withSoftLimit<T>(libc: LimitCalls, resource: number, soft: bigint, action: () => T): T {
  const [before = soft, hard = soft] = libc.readLimit(0, resource) ?? [];
  if (before === soft || !trySet(libc, resource, soft, hard)) return action();
  try {
    return action();
  } finally {
    libc.writeLimit(resource, before, hard);
  }
}

function trySet(libc: LimitCalls, resource: number, soft: bigint, hard: bigint): boolean {
  try {
    libc.writeLimit(resource, soft, hard);
    return true;
  } catch {
    return false;
  }
}
