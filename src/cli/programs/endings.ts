import { withTimeout } from '../../base/with-timeout.ts';
import type { ExecProcess } from '../../client/backend.ts';
import type { ExecServerClient } from '../../client/client.ts';
import { type ClientError, messageWithoutHint } from '../../client/errors.ts';
import type { ResultOf } from '../../protocol/registry.ts';
import type { CommandResult } from '../commands.ts';
import { type ClientOptions, LOCAL, type Target } from '../environments/target.ts';
import { jsonFailure, PROGRAM_EXIT_CODES, RunError } from '../failures.ts';
import { visible } from '../terminal-text.ts';
import { exitCodeOf } from './exit-codes.ts';
import type { Ending } from './follow.ts';
import { type Interruptions, signalExitCode, signalOf } from './interruptions.ts';
import { EXIT_ANSWER_MS, LEFT_FLUSH_MS, RECOVERY_MS, SESSION_END_MS } from './limits.ts';
import { isSessionGone, serverGoneError } from './line-watch.ts';
import type { OutputLosses } from './output-losses.ts';
import type { ProgramOutput } from './program-output.ts';

/** SIGKILL, with which the server ends a program at a limit. */
const KILLED = 137;

/** Where a program runs, for the command line that attaches to it. */
export interface Place {
  readonly target: Pick<Target, 'name' | 'address'>;
  readonly tokenFile: string | null;
}

/** The command that attaches to a program. */
export function attachCommand(place: Place, ref: string): string {
  return commandFor('attach', place, ref);
}

/** What a command says when a person has detached. Without a connection it cannot know whether the program runs. */
export function detachedText(place: Place, ref: string | null, isConnected: boolean): string {
  const state = isConnected
    ? 'the program keeps running'
    : 'the connection is lost, so the program may still run';
  if (ref === null) return `detached; ${state}`;
  const [attach, kill] = [attachCommand(place, ref), commandFor('kill', place, ref)];
  return `detached; ${state}: '${attach}' attaches again, '${kill}' ends it`;
}

/** A command for a program where it runs, or for all programs there. */
export function commandFor(command: string, { target, tokenFile }: Place, ref?: string): string {
  const environment = target.name === LOCAL ? '' : ` -E ${target.name}`;
  const token = tokenFile === null ? '' : ` --token-file ${tokenFile}`;
  return visible(`exec-server ${command}${environment}${token}${ref === undefined ? '' : ` ${ref}`}`);
}

/**
 * Asks why a program ended that the server killed: the event of its exit says so only for some servers and attachments. Null when no limit
 * did it, or when the server does not report it.
 */
export async function limitOf(
  client: ExecServerClient,
  process: ExecProcess,
  exitCode: number,
): Promise<string | null> {
  return exitCode === KILLED ? ((await exitOf(client, process))?.reason ?? null) : null;
}

/** Asks the server whether a program has exited, without waiting for it. Null when the server does not answer. */
export async function exitOf(
  client: ExecServerClient,
  process: ExecProcess,
): Promise<ResultOf<'process/wait'> | null> {
  if (!client.capabilities.processWait) return null;
  const processId = process.ref ?? process.processId;
  return client
    .call('process/wait', { processId, timeoutMs: 0, until: 'exited' }, { timeoutMs: EXIT_ANSWER_MS })
    .catch(() => null);
}

/**
 * Waits for a slow reader of the output, except for one that takes nothing after the program was left. A signal ends the wait, and then
 * the ending is that of the signal.
 */
export async function flushed(
  ending: Ending,
  output: ProgramOutput,
  interruptions: Interruptions,
): Promise<Ending> {
  const interrupted = new Promise<Ending>((resolve) => {
    interruptions.handleWith((interruption) => {
      resolve({ type: 'left', exitCode: signalExitCode(signalOf(interruption)), text: null });
    });
  });
  const flushing = output.flush().then(() => ending);
  const bounded =
    ending.type === 'left' ? withTimeout(flushing, LEFT_FLUSH_MS, { onTimeout: () => ending }) : flushing;
  return Promise.race([bounded, interrupted]);
}

/** How long a command asks the server to keep its session. */
export type SessionTime = Pick<ClientOptions, 'detachedSessionTtlMs'>;

/** How long to wait for a lost connection: as long as the server keeps the session. Null for no limit. */
export function recoveryMsOf(
  client: Pick<ExecServerClient, 'environmentInfo'>,
  { detachedSessionTtlMs: asked }: SessionTime,
): number | null {
  const { limits } = client.environmentInfo ?? {};
  // A server that has no other maximum gives at most its own time.
  const given =
    asked === undefined
      ? limits?.detachedSessionTtlMs
      : (limits?.maxDetachedSessionTtlMs ?? limits?.detachedSessionTtlMs);
  if (typeof given !== 'number') return RECOVERY_MS;
  const longest = given === -1 ? Number.POSITIVE_INFINITY : given;
  const ttl = typeof asked === 'number' ? Math.min(asked, longest) : longest;
  return Number.isFinite(ttl) ? ttl + SESSION_END_MS : null;
}

/** What the result of a command depends on, besides the ending. */
interface Circumstances {
  readonly place: Place;
  readonly ref: string | null;
  readonly outlives: boolean;
  /** The value of --timeout. */
  readonly timeout: string | null;
  /** Whether the program has drawn on the terminal, where the cursor may be anywhere. */
  readonly isOnTerminal: boolean;
  readonly json: boolean;
  /** Why the output could not be written; null when it was, or when nothing reads it. */
  readonly failure: RunError | null;
  readonly losses: OutputLosses;
}

/** The result of a command that has followed a program. Throws RunError when the program can no longer be followed. */
export function resultOf(ending: Ending, circumstances: Circumstances): CommandResult {
  const { place, ref, outlives, timeout, isOnTerminal, json, failure, losses } = circumstances;
  const start = isOnTerminal ? '\n' : '';
  const details = (code: string, text: string) =>
    json ? `${jsonFailure(code, text)}\n` : `${start}exec-server: ${visible(text)}\n`;
  if (ending.type === 'lost')
    throw ending.isServerGone ? serverGoneError(ending.error) : lostError(ending.error, place, ref, outlives);
  if (ending.type === 'left') {
    const { exitCode, text } = ending;
    return { text: '', details: text === null ? '' : details('left', text), exitCode };
  }
  const { exitCode, reason } = ending.exit;
  if (failure !== null) {
    throw new RunError(`${failure.message}; the program has exited with ${exitCode}`, failure);
  }
  if (losses.text !== null) {
    const end = reason === null ? `the program has exited with ${exitCode}` : limitText(reason, timeout);
    const text = `${end}, and ${losses.text}; with --retained-output-bytes-per-process a server keeps more`;
    return { text: '', details: details('outputLost', text), exitCode: PROGRAM_EXIT_CODES.failure.code };
  }
  if (reason === null) return { text: '', exitCode: exitCodeOf(ending.exit) };
  return {
    text: '',
    details: details(reason, limitText(reason, timeout)),
    exitCode: exitCodeOf(ending.exit),
  };
}

function limitText(reason: string, timeout: string | null): string {
  const texts: Readonly<Record<string, string>> = {
    timeout:
      timeout === null ? 'it ran longer than the server allows' : `it ran longer than ${timeout} (--timeout)`,
    idle: 'it printed nothing for longer than the server allows',
    outputLimit: 'it printed more than the server allows',
    oom: 'it needed more memory than the server allows',
  };
  return `the program was ended: ${texts[reason] ?? reason}`;
}

/** What a command says when it has lost the server for good. */
export function lostText(error: ClientError): string {
  const problem = messageWithoutHint(error).replaceAll('`', '');
  return `lost the server: ${problem.replace(/ with HTTP 401$/, '$& (the token is wrong, expired or revoked)')}`;
}

/** The error for a program that can no longer be followed. It says whether the program still runs. */
function lostError(error: ClientError, place: Place, ref: string | null, outlives: boolean): RunError {
  const { kind } = error;
  const problem = lostText(error);
  if (ref === null) {
    return new RunError(`${problem}; the program may still run until the server ends its session`, { kind });
  }
  const command = attachCommand(place, ref);
  if (outlives) {
    const state = isSessionGone(error)
      ? 'the program keeps running unless the server was restarted'
      : 'the program should keep running';
    return new RunError(`${problem}; ${state}: '${command}' attaches to it`, { kind });
  }
  return new RunError(
    isSessionGone(error)
      ? `${problem}; the program no longer runs: the server has ended its session, or was restarted`
      : `${problem}; the program may still run until the server ends its session: '${command}' attaches to it`,
    { kind },
  );
}
