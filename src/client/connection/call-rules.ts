import type { Method } from '../../protocol/registry.ts';
import {
  EARLY_LOSS_MS,
  INFO_TIMEOUT_MS,
  MAX_RETRIES,
  MAX_RETRIES_AFTER_PROTOCOL_ERROR,
  STATUS_TIMEOUT_MS,
} from '../limits.ts';
import type { LinkEnd } from './link.ts';

/** How a method is treated when the connection is or gets lost. */
export interface CallRules {
  /** Whether it may be sent again after a recovery, because a second time changes nothing. */
  readonly retryable: boolean;
  /** Whether it ends what other calls began: there is always a place for one of these. */
  readonly cleanup: boolean;
  /** Whether it fails at once during a recovery. */
  readonly failFast: boolean;
  readonly timeoutMs: number | undefined;
}

/** The rules of a call. Only a write with an id of its own can be told from a second one. */
export function rulesOf(method: Method, params: unknown): CallRules {
  const write = method === 'process/write' && typeof (params as { writeId?: unknown })?.writeId === 'string';
  return {
    retryable: write || METHOD_EFFECTS[method] === 'read',
    cleanup: METHOD_EFFECTS[method] === 'cleanup',
    failFast: method === 'environment/status',
    timeoutMs: TIMEOUTS.get(method),
  };
}

/** How often one call was lost together with its link, and whether it may be the reason. */
export class CallRetries {
  #earlyLosses = 0;
  #protocolErrors = 0;

  /** Takes down a loss of a call that was sent at that time. False when it must not be sent again. */
  allowAfter(end: LinkEnd, sentAt: number): boolean {
    if (!end.retryable) return false;
    if (performance.now() - sentAt >= EARLY_LOSS_MS) return true;
    this.#earlyLosses++;
    if (end.protocolError) this.#protocolErrors++;
    return this.#earlyLosses <= MAX_RETRIES && this.#protocolErrors <= MAX_RETRIES_AFTER_PROTOCOL_ERROR;
  }
}

/** What each method does; one that is missing does not compile. */
const METHOD_EFFECTS: Readonly<Record<Method, 'read' | 'mutate' | 'cleanup'>> = {
  initialize: 'mutate',
  'environment/info': 'read',
  'environment/status': 'read',
  'capabilityRoots/discoverV1': 'read',
  'capabilities/discoverV2': 'read',
  'environmentConfig/read': 'read',
  'process/start': 'mutate',
  'process/read': 'read',
  'process/write': 'mutate',
  'process/signal': 'mutate',
  'process/terminate': 'cleanup',
  'process/closeStdin': 'mutate',
  'process/resize': 'mutate',
  'process/wait': 'read',
  'process/snapshot': 'read',
  'process/list': 'read',
  'fs/readFile': 'read',
  'fs/writeFile': 'mutate',
  'fs/createDirectory': 'mutate',
  'fs/getMetadata': 'read',
  'fs/canonicalize': 'read',
  'fs/readDirectory': 'read',
  'fs/walk': 'read',
  'fs/remove': 'mutate',
  'fs/copy': 'mutate',
  'fs/rename': 'mutate',
  'fs/open': 'mutate',
  // It only looks, but through a handle, which ends with the connection.
  'fs/readBlock': 'mutate',
  'fs/writeBlock': 'mutate',
  'fs/close': 'cleanup',
  'fs/watchMissing': 'mutate',
  'fs/watch': 'mutate',
  'fs/unwatch': 'cleanup',
  'fs/search': 'read',
  'http/request': 'mutate',
  'http/cancel': 'cleanup',
  'http/consumed': 'mutate',
  'command/exec': 'mutate',
  'command/exec/write': 'mutate',
  'command/exec/terminate': 'cleanup',
};

const TIMEOUTS: ReadonlyMap<Method, number> = new Map<Method, number>([
  ['environment/info', INFO_TIMEOUT_MS],
  ['environment/status', STATUS_TIMEOUT_MS],
]);
