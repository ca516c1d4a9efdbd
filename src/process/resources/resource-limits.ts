import { ProcessError } from '../errors.ts';
import type { SessionGroup } from './control-group.ts';

/** What the system lets a program and everything it starts use. Null is no limit. */
export interface ResourceLimits {
  readonly memoryBytes: number | null;
  /** Processes and threads. */
  readonly pids: number | null;
  /** Share of one processor; 200 is two of them. */
  readonly cpuPercent: number | null;
}

export const NO_RESOURCE_LIMITS: ResourceLimits = { memoryBytes: null, pids: null, cpuPercent: null };

/** What the server lets a program do before it ends it. Null is no limit. */
export interface RunLimits {
  /** Time from the start until the last output stream has ended. */
  readonly wallMs: number | null;
  /** Time without output. While nobody reads the output, because the client does not keep up, it does not pass. */
  readonly idleMs: number | null;
  /** Bytes of all output streams together; what comes after them is dropped. */
  readonly outputBytes: number | null;
}

export const NO_RUN_LIMITS: RunLimits = { wallMs: null, idleMs: null, outputBytes: null };

/** Which limit ended a program: its memory, its time, its silence or its output. */
export type LimitReason = 'oom' | 'timeout' | 'idle' | 'outputLimit';

/** Whether the system has anything to enforce. */
export function limitsAnything({ memoryBytes, pids, cpuPercent }: ResourceLimits): boolean {
  return memoryBytes !== null || pids !== null || cpuPercent !== null;
}

/** Limits as somebody asks for them; what is absent or null is left to others. */
export type RequestedLimits = {
  readonly [Name in keyof (ResourceLimits & RunLimits)]?: number | null | undefined;
};

/** What a program is held to, by the system and by whoever runs it. */
export interface EffectiveLimits {
  readonly resources: ResourceLimits;
  readonly run: RunLimits;
}

/** The stricter of what is asked for and what is allowed at most; 0 is no limit. */
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

/** What the system lets all programs of one session use together. Only a control group can keep it, made with the first of them. */
export class SessionLimits {
  readonly limits: ResourceLimits;
  #group: SessionGroup | null = null;
  #closed = false;

  constructor(limits: ResourceLimits) {
    this.limits = limits;
  }

  /** The group of the session, which `make` makes for its first program. */
  group(make: (limits: ResourceLimits) => SessionGroup): SessionGroup {
    if (this.#closed) throw new ProcessError('shuttingDown', 'the session has ended');
    this.#group ??= make(this.limits);
    return this.#group;
  }

  /** Gives the group back; to be called when the session has ended. What a program has left running keeps it, and its limits. */
  close(): void {
    this.#closed = true;
    this.#group?.remove();
  }
}
