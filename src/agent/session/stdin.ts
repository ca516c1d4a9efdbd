import { ExecToolError, messageOf } from '../errors.ts';
import { EXECUTOR_TIMEOUT_MS, LATE_EXIT_MS } from '../limits.ts';
import { type Window, waitForEnd } from './collect.ts';
import type { Session } from './session.ts';

/**
 * Hands input to a program; without a terminal that can only be an interrupt. Whether it was delivered: not when the program has
 * ended. Rejects when the program takes no input or the executor cannot be reached; in the latter case the program is lost.
 */
export async function sendInput(
  session: Session,
  chars: string,
  window: Pick<Window, 'clock' | 'time' | 'signal'>,
): Promise<boolean> {
  const { process, request } = session;
  const failure = (kind: 'writeFailed' | 'stdinClosed', message: string, cause?: unknown) =>
    new ExecToolError('write_stdin', kind, message, { cause, sessionId: session.id });
  if (process.state.ended) return false;
  if (!request.tty && chars !== INTERRUPT) throw failure('stdinClosed', NO_TERMINAL);
  const options = { signal: window.signal, timeoutMs: EXECUTOR_TIMEOUT_MS };
  try {
    if (!request.tty) {
      await process.process.signal('interrupt', options);
      return true;
    }
    const status = await process.process.write(chars, options);
    if (status === 'accepted') return true;
    if (status === 'starting') throw failure('writeFailed', 'the program is still starting; try again');
    // The program is gone, or about to be: the news of its end says it better.
    await waitForEnd(process, LATE_EXIT_MS, window);
    if (status === 'unknownProcess') process.giveUp('the executor does not know the program any more');
    else if (!process.state.ended) throw failure('stdinClosed', 'the program takes no more input');
    return false;
  } catch (error) {
    if (error instanceof ExecToolError || window.signal?.aborted) throw error;
    if (!isLoss(error)) throw failure('writeFailed', messageOf(error), error);
    process.giveUp(`the input could not be written: ${messageOf(error)}`);
    return false;
  }
}

const INTERRUPT = '\u0003';
const NO_TERMINAL = 'stdin is closed for this session; run the command again with tty=true to type into it';

/**
 * Kinds of errors behind which nothing more can be known of a process. The others are about the one call: a process is followed on
 * when the connection that its answer got lost with is restored.
 */
const LOSSES: ReadonlySet<unknown> = new Set([
  'disconnected',
  'closed',
  'protocol',
  'connectFailed',
  'connectTimeout',
  'initializeTimeout',
]);

function isLoss(error: unknown): boolean {
  return error instanceof Error && 'kind' in error && LOSSES.has(error.kind);
}
