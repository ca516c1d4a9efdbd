import { quoteValue } from '../server/config/values.ts';
import { UsageError } from './failures.ts';

/** Parses a time such as `90s` into milliseconds. A number without a unit means seconds to some and milliseconds to others: it is refused. */
export function parseDuration(text: string, flag: string, command: string): number {
  const [, number = '', unit = ''] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text) ?? [];
  const ms = Math.ceil(Number(number) * (MILLISECONDS[unit] ?? 0));
  if (ms > 0 && ms <= MAX_TIMER_MS) return ms;
  throw new UsageError(
    `${flag} ${quoteValue(text)} is not a time; write it like 500ms, 90s, 10m or 2h, up to 24d`,
    command,
  );
}

const MILLISECONDS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** The longest time that timers of Node can measure, and that servers accept as a limit: 24.8 days. */
const MAX_TIMER_MS = 2 ** 31 - 1;
