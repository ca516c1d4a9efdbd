import type { ResultOf } from '../../protocol/registry.ts';
import type { CallOptions, TerminateMode } from '../backend.ts';
import { CallLimit } from '../connection/call-limit.ts';
import { expectOptions, kindOf, wrong } from '../connection/option-checks.ts';
import { readRunning } from '../connection/server-messages.ts';
import { ClientError } from '../errors.ts';
import { MAX_RETRIES } from '../limits.ts';
import { isLost } from './retained-output.ts';

/**
 * Sends `process/terminate`, again when the answer was lost: otherwise the program might keep running, and terminating twice does no
 * harm. `what` is for the error of a timeout. Returns whether the process was running.
 */
export async function terminateSurely(
  what: string,
  options: CallOptions,
  send: (signal: AbortSignal | undefined) => Promise<ResultOf<'process/terminate'>>,
): Promise<boolean> {
  const limit = new CallLimit(what, options);
  try {
    for (let repeats = 0; ; repeats++) {
      try {
        // A process that a retry finds ended was ended by the attempt whose answer was lost.
        return readRunning(await send(limit.signal)) || repeats > 0;
      } catch (error) {
        limit.signal?.throwIfAborted();
        if (!isLost(error) || repeats === MAX_RETRIES) throw error;
      }
    }
  } finally {
    limit.end();
  }
}

/** Throws ClientError for a mode that does not exist: the default would kill the program immediately. */
export function expectTerminateMode(mode: unknown): asserts mode is TerminateMode | undefined {
  if (mode === undefined) return;
  if (typeof mode !== 'object' || mode === null)
    throw wrong('the mode of `terminate` is', mode, 'an object', MODES);
  const { type } = mode as { readonly type?: unknown };
  if (type !== 'graceful' && type !== 'force')
    throw new ClientError(
      'invalidInput',
      `the mode of \`terminate\` has the type ${typeof type === 'string' ? `'${type}'` : kindOf(type)}`,
      { hint: MODES },
    );
  const names = type === 'graceful' ? { type: true, timeoutMs: true } : { type: true };
  expectOptions(`the mode '${type}' of \`terminate\``, mode, names as Readonly<Record<string, true>>);
  if (type !== 'graceful') return;
  const { timeoutMs } = mode as { readonly timeoutMs?: unknown };
  if (!Number.isSafeInteger(timeoutMs) || (timeoutMs as number) < 0)
    throw wrong('`timeoutMs` of the mode is', timeoutMs, 'a whole number of milliseconds', MODES);
}

const MODES = "pass { type: 'graceful', timeoutMs: 3000 }, or leave it out to kill the program immediately";
