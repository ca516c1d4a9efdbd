import { unlessAborted } from '../../base/abort.ts';
import { forEachBounded } from '../../base/for-each-bounded.ts';
import { TimeLimit } from '../../base/time-limit.ts';
import { FileError, refused } from '../../files/errors.ts';
import type { FileHash } from '../../files/file-system.ts';
import { HASH_DEFAULT_TIMEOUT_MS, HASH_MAX_TIMEOUT_MS } from '../../files/limits.ts';
import type { NativePath } from '../../files/native-path.ts';
import type { ResultOf } from '../../protocol/registry.ts';
import { domainErrorToRpc } from '../domain-errors.ts';
import { TREE_OPERATIONS_PER_CONNECTION } from '../limits.ts';

type HashOutcome = ResultOf<'fs/hash'>['files'][number];

/** The time limit of a request. Throws FileError when it is out of range. */
export function hashTimeout(timeoutMs: number | null | undefined): number {
  const limit = timeoutMs ?? HASH_DEFAULT_TIMEOUT_MS;
  if (limit < 1 || limit > HASH_MAX_TIMEOUT_MS) {
    throw refused(`timeoutMs must be between 1 and ${HASH_MAX_TIMEOUT_MS}`);
  }
  return limit;
}

/**
 * Hashes files, and returns the hash or the error of each in order. When the time is up, the rest get an error and the hashes that run
 * are stopped. Rejects when the connection has ended.
 */
export async function hashAll(
  paths: readonly NativePath[],
  hash: (path: NativePath, signal: AbortSignal) => Promise<FileHash>,
  timeoutMs: number,
  ended: AbortSignal,
): Promise<HashOutcome[]> {
  const outcomes = new Array<HashOutcome>(paths.length);
  const timeUp = () => new FileError('failed', `the file was not hashed within ${timeoutMs} ms`);
  const limit = new TimeLimit(timeoutMs, [ended], { timeUp });
  try {
    await forEachBounded(paths.keys(), TREE_OPERATIONS_PER_CONNECTION, async (index) => {
      try {
        limit.signal.throwIfAborted();
        // A read that hangs on a dead mount does not heed the signal. It keeps its slot.
        outcomes[index] = await unlessAborted(hash(paths[index]!, limit.signal), limit.signal);
      } catch (error) {
        ended.throwIfAborted();
        outcomes[index] = { error: errorOf(error) };
      }
    });
  } finally {
    limit.end();
  }
  return outcomes;
}

function errorOf(error: unknown): NonNullable<HashOutcome['error']> {
  const known = domainErrorToRpc(error);
  if (known === null) throw error;
  return { code: known.code, message: known.message };
}
