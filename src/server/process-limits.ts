import type { ResourceLimits, RunLimits } from '../process/resources/resource-limits.ts';
import type { ExecServerConfig } from './config.ts';

/** Limits as a client asks for them; what is absent or null is left to the server. */
export type RequestedLimits = {
  readonly [Name in keyof (ResourceLimits & RunLimits)]?: number | null | undefined;
};

/** What the system holds a program to: the stricter of what the client asks for and what the server allows. */
export function resourceLimits(config: ExecServerConfig, requested: RequestedLimits | null): ResourceLimits {
  return {
    memoryBytes: stricter(requested?.memoryBytes, config.maxProcessMemoryBytes),
    pids: stricter(requested?.pids, config.maxProcessPids),
    cpuPercent: stricter(requested?.cpuPercent, config.maxProcessCpuPercent),
  };
}

/** What the server itself holds a program to, by the same rule. */
export function runLimits(config: ExecServerConfig, requested: RequestedLimits | null): RunLimits {
  return {
    wallMs: stricter(requested?.wallMs, config.maxProcessWallMs),
    idleMs: stricter(requested?.idleMs, config.maxProcessIdleMs),
    outputBytes: stricter(requested?.outputBytes, config.maxProcessOutputBytes),
  };
}

/** A configured 0 is no limit. */
function stricter(requested: number | null | undefined, configured: number): number | null {
  const limits = [requested ?? 0, configured].filter((limit) => limit > 0);
  return limits.length === 0 ? null : Math.min(...limits);
}
