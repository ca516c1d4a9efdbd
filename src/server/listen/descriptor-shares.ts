import { RESERVED_DESCRIPTORS, SLOTS_FOR_NEW_CLIENTS } from '../../listener/limits.ts';
import { DESCRIPTORS_PER_PROCESS, MIN_SLOTS_FOR_NEW_CLIENTS } from '../limits.ts';

/** How the server divides its descriptors, so that no use of them can starve the others. */
export interface DescriptorShares {
  /** Websocket connections. */
  readonly connections: number;
  /** All connections, including those that are not websockets yet. */
  readonly sockets: number;
  /** Descriptors for programs and open files. */
  readonly work: number;
}

/**
 * Divides the descriptor limit, null where it is unknown. The server reserves some for itself. Connections get half of the rest, or
 * less if `maxConnections` needs less. Programs and files get the remainder.
 */
export function shareDescriptors(limit: number | null, maxConnections: number): DescriptorShares {
  const free = Math.max(
    (limit ?? Number.POSITIVE_INFINITY) - RESERVED_DESCRIPTORS,
    2 * DESCRIPTORS_PER_PROCESS,
  );
  const sockets = Math.floor(Math.min(maxConnections + SLOTS_FOR_NEW_CLIENTS, free / 2));
  const forNewClients = Math.max(MIN_SLOTS_FOR_NEW_CLIENTS, Math.min(SLOTS_FOR_NEW_CLIENTS, sockets >> 2));
  const connections = Math.max(1, Math.min(maxConnections, sockets - forNewClients));
  return { connections, sockets, work: free - sockets };
}
