import { readFileSync } from 'node:fs';
import {
  DESCRIPTORS_OF_A_PROCESS,
  DESCRIPTORS_OF_THE_SERVER,
  MIN_PLACES_FOR_NEWCOMERS,
  PLACES_FOR_NEWCOMERS,
} from '../limits.ts';

/** How the files that the system lets this process open are divided, so that no use of them can keep the others from working. */
export interface DescriptorShares {
  readonly connections: number;
  /** Connections in all, with those that are not websockets yet. */
  readonly sockets: number;
  /** Descriptors for programs and open files. */
  readonly work: number;
}

/**
 * Divides `limit` descriptors, of which the server itself needs some: half of the rest is for connections, unless fewer are wanted,
 * and what remains is for what they ask for. Null is a system that does not tell.
 */
export function shareDescriptors(limit: number | null, maxConnections: number): DescriptorShares {
  const free = Math.max(
    (limit ?? Number.POSITIVE_INFINITY) - DESCRIPTORS_OF_THE_SERVER,
    2 * DESCRIPTORS_OF_A_PROCESS,
  );
  const sockets = Math.floor(Math.min(maxConnections + PLACES_FOR_NEWCOMERS, free / 2));
  const newcomers = Math.max(MIN_PLACES_FOR_NEWCOMERS, Math.min(PLACES_FOR_NEWCOMERS, sockets >> 2));
  const connections = Math.max(1, Math.min(maxConnections, sockets - newcomers));
  return { connections, sockets, work: free - sockets };
}

/** How many files this process may have open; null where the system does not say. Node itself raises it as far as it may. */
export function descriptorLimit(): number | null {
  try {
    const [, limit] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? [];
    return limit === undefined ? null : Number(limit);
  } catch {
    return null;
  }
}
