import { ProcessError } from '../errors.ts';
import type { SessionGroup } from './control-group.ts';

/** What a program and everything it starts may use; enforced by the kernel. Null is no limit. */
export interface ResourceLimits {
  readonly memoryBytes: number | null;
  /** Processes and threads. */
  readonly pids: number | null;
  /** Share of one CPU; 200 is two CPUs. */
  readonly cpuPercent: number | null;
}

export const NO_RESOURCE_LIMITS: ResourceLimits = { memoryBytes: null, pids: null, cpuPercent: null };

/** What a program may do before the server ends it. Null is no limit. */
export interface RunLimits {
  /** Time from the start until the last output stream has ended. */
  readonly wallMs: number | null;
  /** Time without output. Does not count while the server does not read because the client is too slow. */
  readonly idleMs: number | null;
  /** Bytes of all output streams together; the rest is dropped. */
  readonly outputBytes: number | null;
}

export const NO_RUN_LIMITS: RunLimits = { wallMs: null, idleMs: null, outputBytes: null };

/** Which limit ended a program: memory, running time, time without output, or amount of output. */
export type LimitReason = 'oom' | 'timeout' | 'idle' | 'outputLimit';

/** Whether the kernel has any limit to enforce. */
export function limitsAnything({ memoryBytes, pids, cpuPercent }: ResourceLimits): boolean {
  return memoryBytes !== null || pids !== null || cpuPercent !== null;
}

/** Limits as requested or configured; absent and null set none. */
export type RequestedLimits = {
  readonly [Name in keyof (ResourceLimits & RunLimits)]?: number | null | undefined;
};

/** The limits of a program, for the kernel and for the server. */
export interface EffectiveLimits {
  readonly resources: ResourceLimits;
  readonly run: RunLimits;
}

/** The stricter of the requested and the allowed limits; 0 is no limit. */
export function effectiveLimits(
  requested: RequestedLimits | null | undefined,
  allowed: RequestedLimits = {},
): EffectiveLimits {
  const stricter = (name: keyof RequestedLimits): number | null => {
    const limits = [requested?.[name] ?? 0, allowed[name] ?? 0].filter((limit) => limit > 0);
    return limits.length === 0 ? null : Math.min(...limits);
  };
  return {
    resources: {
      memoryBytes: stricter('memoryBytes'),
      pids: stricter('pids'),
      cpuPercent: stricter('cpuPercent'),
    },
    run: {
      wallMs: stricter('wallMs'),
      idleMs: stricter('idleMs'),
      outputBytes: stricter('outputBytes'),
    },
  };
}

/**
 * What all programs of one session, or all detached programs of one owner, may use together. Needs a control group, which is created with
 * the first program.
 */
export class SessionLimits {
  readonly limits: ResourceLimits;
  /** Whose programs they are, for errors. */
  readonly holder: string;
  #group: SessionGroup | null = null;
  #closed = false;

  constructor(limits: ResourceLimits, holder = 'the programs of this session') {
    this.limits = limits;
    this.holder = holder;
  }

  /** The session's group; `make` creates it for the first program. */
  group(make: () => SessionGroup): SessionGroup {
    if (this.#closed) throw new ProcessError('shuttingDown', 'the session has ended');
    this.#group ??= make();
    return this.#group;
  }

  /** Removes the group after the session has ended. A process that a program left running keeps the group and its limits. */
  close(): void {
    this.#closed = true;
    this.#group?.remove();
  }
}
