import type { Method } from '../../protocol/registry.ts';
import {
  EARLY_LOSS_MS,
  INFO_TIMEOUT_MS,
  MAX_RETRIES,
  MAX_RETRIES_AFTER_PROTOCOL_ERROR,
  STATUS_TIMEOUT_MS,
} from '../limits.ts';
import type { LinkEnd } from './link.ts';

/** How the client treats a call when the connection is lost or the server is busy. */
interface CallRules {
  /** Whether the call may be sent again after a recovery, because a second time has no further effect. */
  readonly retryable: boolean;
  /** Whether the call ends something that another call started. A slot is reserved for such calls. */
  readonly cleanup: boolean;
  /** Whether the call fails immediately during a recovery. */
  readonly failFast: boolean;
  readonly timeoutMs: number | undefined;
}

/**
 * Returns the rules of a call. A write is retryable only with a `writeId`, by which the server recognizes the
 * repetition.
 */
export function rulesOf(method: Method, params: unknown): CallRules {
  const write = method === 'process/write' && typeof (params as { writeId?: unknown })?.writeId === 'string';
  return {
    // A session that has detached stays so on its next connection, unlike what else ends with the connection.
    retryable: write || METHOD_EFFECTS[method] === 'read' || method === 'process/detach',
    cleanup: METHOD_EFFECTS[method] === 'cleanup',
    failFast: method === 'environment/status',
    timeoutMs: TIMEOUTS.get(method),
  };
}

/** Counts the retries of one call and decides whether the call may be the cause of the lost connections. */
export class CallRetries {
  #earlyLosses = 0;
  #protocolErrors = 0;

  /**
   * Records that the link of a call ended. `sentAt` is when the call was sent. Returns whether the call may be sent
   * again.
   */
  allowAfter(end: LinkEnd, sentAt: number): boolean {
    if (!end.retryable) return false;
    if (performance.now() - sentAt >= EARLY_LOSS_MS) return true;
    this.#earlyLosses++;
    if (end.protocolError) this.#protocolErrors++;
    return this.#earlyLosses <= MAX_RETRIES && this.#protocolErrors <= MAX_RETRIES_AFTER_PROTOCOL_ERROR;
  }
}

/** The effect of each method. A missing method does not compile. */
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
  // Attachments, streams and watches end with the connection.
  'process/attach': 'mutate',
  'process/detach': 'cleanup',
  // The program waits for it, also while other programs use up the unanswered calls.
  'process/consumed': 'cleanup',
  'process/screen': 'read',
  'recordings/list': 'read',
  'recordings/read': 'read',
  'process/forget': 'mutate',
  'process/setLifetime': 'mutate',
  'tcp/connect': 'mutate',
  'tcp/data': 'mutate',
  'tcp/end': 'mutate',
  'tcp/close': 'cleanup',
  'tcp/consumed': 'mutate',
  'ports/watch': 'mutate',
  'ports/unwatch': 'cleanup',
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
  'fs/list': 'read',
  'fs/setAttributes': 'mutate',
  'fs/createLink': 'mutate',
  'fs/open': 'mutate',
  // It only reads, but through a handle that ends with the connection.
  'fs/readBlock': 'mutate',
  'fs/writeBlock': 'mutate',
  'fs/close': 'cleanup',
  'fs/watchMissing': 'mutate',
  'fs/watch': 'mutate',
  'fs/unwatch': 'cleanup',
  'fs/search': 'read',
  'fs/hash': 'read',
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
