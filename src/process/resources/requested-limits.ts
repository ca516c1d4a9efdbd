import type { ResourceLimits, RunLimits } from './resource-limits.ts';

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
