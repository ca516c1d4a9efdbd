import type { Method } from '../protocol/registry.ts';
import { INFO_TIMEOUT_MS, STATUS_TIMEOUT_MS } from './limits.ts';

/** How a method is treated when the connection is or gets lost. */
export interface CallRules {
  /** Whether it may be sent again after a recovery, because a second time changes nothing. */
  readonly repeatable: boolean;
  /** Whether it ends what other calls began: there is always a place for one of these. */
  readonly cleanUp: boolean;
  /** Whether it fails at once during a recovery. */
  readonly failFast: boolean;
  readonly timeoutMs: number | undefined;
}

/** The rules of a call. Only a write with an id of its own can be told from a second one. */
export function rulesOf(method: Method, params: unknown): CallRules {
  const write = method === 'process/write' && typeof (params as { writeId?: unknown })?.writeId === 'string';
  return {
    repeatable: write || REPEATABLE.has(method),
    cleanUp: CLEAN_UP.has(method),
    failFast: method === 'environment/status',
    timeoutMs: TIMEOUTS.get(method),
  };
}

/** Methods that only look. `fs/readBlock` is none of them: its handle ends with the connection. */
const REPEATABLE: ReadonlySet<Method> = new Set<Method>([
  'environment/info',
  'capabilityRoots/discoverV1',
  'process/read',
  'process/wait',
  'process/snapshot',
  'process/list',
  'fs/readFile',
  'fs/getMetadata',
  'fs/canonicalize',
  'fs/readDirectory',
  'fs/walk',
  'fs/search',
]);

const CLEAN_UP: ReadonlySet<Method> = new Set<Method>(['process/terminate', 'fs/close', 'fs/unwatch']);

const TIMEOUTS: ReadonlyMap<Method, number> = new Map<Method, number>([
  ['environment/info', INFO_TIMEOUT_MS],
  ['environment/status', STATUS_TIMEOUT_MS],
]);
