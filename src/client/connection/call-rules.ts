import type { Method } from '../../protocol/registry.ts';
import { INFO_TIMEOUT_MS, STATUS_TIMEOUT_MS } from '../limits.ts';

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
    repeatable: write || NATURES[method] === 'looks',
    cleanUp: NATURES[method] === 'cleansUp',
    failFast: method === 'environment/status',
    timeoutMs: TIMEOUTS.get(method),
  };
}

/** What each method does; one that is missing does not compile. */
const NATURES: Readonly<Record<Method, 'looks' | 'acts' | 'cleansUp'>> = {
  initialize: 'acts',
  'environment/info': 'looks',
  'environment/status': 'looks',
  'capabilityRoots/discoverV1': 'looks',
  'capabilities/discoverV2': 'looks',
  'environmentConfig/read': 'looks',
  'process/start': 'acts',
  'process/read': 'looks',
  'process/write': 'acts',
  'process/signal': 'acts',
  'process/terminate': 'cleansUp',
  'process/closeStdin': 'acts',
  'process/resize': 'acts',
  'process/wait': 'looks',
  'process/snapshot': 'looks',
  'process/list': 'looks',
  'fs/readFile': 'looks',
  'fs/writeFile': 'acts',
  'fs/createDirectory': 'acts',
  'fs/getMetadata': 'looks',
  'fs/canonicalize': 'looks',
  'fs/readDirectory': 'looks',
  'fs/walk': 'looks',
  'fs/remove': 'acts',
  'fs/copy': 'acts',
  'fs/rename': 'acts',
  'fs/open': 'acts',
  // It only looks, but through a handle, which ends with the connection.
  'fs/readBlock': 'acts',
  'fs/writeBlock': 'acts',
  'fs/close': 'cleansUp',
  'fs/watchMissing': 'acts',
  'fs/watch': 'acts',
  'fs/unwatch': 'cleansUp',
  'fs/search': 'looks',
  'http/request': 'acts',
  'http/cancel': 'cleansUp',
  'http/consumed': 'acts',
  'command/exec': 'acts',
  'command/exec/write': 'acts',
  'command/exec/terminate': 'cleansUp',
};

const TIMEOUTS: ReadonlyMap<Method, number> = new Map<Method, number>([
  ['environment/info', INFO_TIMEOUT_MS],
  ['environment/status', STATUS_TIMEOUT_MS],
]);
