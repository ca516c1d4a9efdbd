import { NO_TTL } from '../../protocol/session.ts';
import type { ExecServerConfig } from '../config/config.ts';

type TtlSettings = Pick<ExecServerConfig, 'detachedSessionTtlMs' | 'maxDetachedSessionTtlMs'>;

/** How long a session may outlive its connection if its client asks for it. */
export function longestDetachedTtlMs({ detachedSessionTtlMs, maxDetachedSessionTtlMs }: TtlSettings): number {
  // Such a server ends programs with their connection, whatever a client asks for.
  if (detachedSessionTtlMs === 0) return 0;
  return Math.max(detachedSessionTtlMs, maxDetachedSessionTtlMs);
}

/** The TTL of a session whose client asks for `requestedMs`. */
export function grantedTtlMs(requestedMs: number, settings: TtlSettings): number {
  const longest = longestDetachedTtlMs(settings);
  return requestedMs === NO_TTL ? longest : Math.min(requestedMs, longest);
}

/** A TTL as the protocol has it. */
export function ttlOnTheWire(ttlMs: number): number {
  return Number.isFinite(ttlMs) ? ttlMs : NO_TTL;
}
