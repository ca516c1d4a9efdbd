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
