import { readFileSync } from 'node:fs';

/**
 * @returns how many descriptors this process may open (RLIMIT_NOFILE); null where the system does not report it. Node raises the soft
 * limit to the hard limit at start.
 */
export function descriptorLimit(): number | null {
  try {
    const [, limit] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? [];
    return limit === undefined ? null : Number(limit);
  } catch {
    return null;
  }
}
