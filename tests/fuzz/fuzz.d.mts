/** Attacks between two visits of an honest client. */
export const ROUND: number;

/** Rejects with what went wrong. */
export function runFuzz(options: {
  seed: number;
  attacks: number;
  /** Asked after each round. */
  goOn?: (done: number) => boolean;
}): Promise<{ attacks: number; kinds: Record<string, number> }>;
