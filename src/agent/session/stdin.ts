import { ClientError } from '../../environment/index.ts';
import { ExecToolError, messageOf } from '../errors.ts';
import { EXECUTOR_TIMEOUT_MS, LATE_EXIT_MS } from '../limits.ts';
import { type WaitLimits, waitForEnd } from './collect.ts';
import type { Session } from './session.ts';

/**
 * Writes input to a program. Without a terminal only an interrupt is possible. Returns false when the program has ended. Rejects when
 * the program reads no input or the executor is unreachable; in the latter case the program is lost.
 */
export async function sendInput(
  session: Session,
  chars: string,
  limits: Pick<WaitLimits, 'clock' | 'time' | 'signal'>,
): Promise<boolean> {
  const { process, request } = session;
  const failure = (kind: 'writeFailed' | 'stdinClosed', message: string, cause?: unknown) =>
    new ExecToolError('write_stdin', kind, message, { cause, sessionId: session.id });
  if (process.state.ended) return false;
  if (!request.tty && chars !== INTERRUPT) throw failure('stdinClosed', NO_TERMINAL);
  const options = { signal: limits.signal, timeoutMs: EXECUTOR_TIMEOUT_MS };
  try {
    if (!request.tty) {
      await process.process.signal('interrupt', options);
      return true;
    }
    await process.process.write(chars, options);
    return true;
  } catch (error) {
    if (error instanceof ExecToolError || limits.signal?.aborted) throw error;
    const kind = error instanceof ClientError ? error.kind : null;
    if (kind === 'stdinClosed' || kind === 'notFound') {
      // The program has ended or is about to end: its exit event explains the failure better.
      await waitForEnd(process, LATE_EXIT_MS, limits);
      if (kind === 'notFound') process.abandon('the executor no longer knows the program');
      else if (!process.state.ended)
        throw failure('stdinClosed', 'the program no longer reads its input', error);
      return false;
    }
    if (!isLoss(error)) throw failure('writeFailed', messageOf(error), error);
    process.abandon(`the input could not be written: ${messageOf(error)}`);
    return false;
  }
}

const INTERRUPT = '\u0003';
const NO_TERMINAL = 'stdin is closed for this session; run the command again with tty=true to type into it';

/**
 * Kinds of errors after which a process cannot be followed. Other kinds concern one call: when a response is lost with the connection,
 * the process is followed again after the recovery.
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
