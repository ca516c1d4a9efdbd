import { constants } from 'node:os';
import { suggestionFor } from '../../base/suggestion.ts';
import type { ExecServerClient } from '../../client/client.ts';
import { ClientError } from '../../client/errors.ts';
import { quoteValue } from '../../server/config/values.ts';
import { type CommandResult, type Host, printed } from '../commands.ts';
import { withClient } from '../environments/with-client.ts';
import { RunError, UsageError } from '../failures.ts';
import { indexesOfFlags, parseFlags } from '../flags.ts';
import { KILL_FLAGS, RM_FLAGS } from '../specs/process-specs.ts';
import { commandFor, type Place } from './endings.ts';
import { type FoundProcess, findProcesses, hasExited, nameOf, requireOperands } from './find-process.ts';
import { END_TIMEOUT_MS } from './limits.ts';
import { stateText } from './ps.ts';

/** Ends processes, or sends them a signal. */
export async function killCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('kill', withSignalFlag(argv), KILL_FLAGS, 'files');
  requireOperands(positionals, 'kill');
  const signal = flags.signal === undefined ? null : signalName(flags.signal);
  const options = { clientName: 'exec-server kill', detachedSessionTtlMs: 0, whileDraining: true };
  return withClient(flags, host, options, async ({ client, target }) => {
    const place = { target, tokenFile: flags['token-file'] ?? null };
    const processes = await findProcesses(client, positionals, { reads: false, place });
    for (const process of processes) requireAlive(process, signal !== null, place);
    await Promise.all(
      processes.map(async (process) => {
        if (signal === null) return end(client, process, place);
        await client.call('process/signal', { processId: process.ref, signal });
      }),
    );
    return done(processes, flags.json);
  });
}

/** Writes `-9`, `-TERM` and `-SIGTERM`, which kill(1) takes, as `-s`. `-EGPU` is the flag -E with its value. */
function withSignalFlag(argv: readonly string[]): readonly string[] {
  const flagIndexes = indexesOfFlags(argv, KILL_FLAGS);
  return argv.flatMap((argument, index) => {
    const [, signal] = /^-(\d+|(?!E)[A-Z][A-Z0-9+-]+)$/.exec(argument) ?? [];
    return signal === undefined || !flagIndexes.has(index) ? [argument] : ['-s', signal];
  });
}

/** Removes processes that have ended. */
export async function rmCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('rm', argv, RM_FLAGS, 'files');
  requireOperands(positionals, 'rm');
  const options = { clientName: 'exec-server rm', detachedSessionTtlMs: 0, whileDraining: true };
  return withClient(flags, host, options, async ({ client, target }) => {
    const place = { target, tokenFile: flags['token-file'] ?? null };
    const processes = await findProcesses(client, positionals, { reads: false, place });
    const running = processes.filter(({ state }) => state !== 'closed');
    if (running.length > 0 && !flags.force) throw stillRunning(running[0]!, place);
    await Promise.all(running.map((process) => end(client, process, place)));
    await Promise.all(processes.map(({ ref }) => client.processes.forget(ref)));
    return done(processes, flags.json);
  });
}

/** Ends a process and everything that it has started, and waits until it has closed. */
async function end(client: ExecServerClient, process: FoundProcess, place: Place): Promise<void> {
  await client.call('process/terminate', { processId: process.ref });
  try {
    await client.call('process/wait', { processId: process.ref }, { timeoutMs: END_TIMEOUT_MS });
  } catch (error) {
    if (!(error instanceof ClientError) || error.kind !== 'timeout') throw error;
    throw new RunError(
      `${nameOf(process)} was killed, but has not ended after ${END_TIMEOUT_MS / 1_000} s; it may be stuck in the kernel, look at it with '${commandFor('ps', place)}'`,
      { kind: 'timeout' },
    );
  }
}

/** A signal needs the program itself; ending everything also works when only its descendants are left. */
function requireAlive(process: FoundProcess, forSignal: boolean, place: Place): void {
  if (forSignal ? !hasExited(process) : process.state !== 'closed') return;
  const at = process.endedAt === null ? '' : ` at ${process.endedAt.toISOString()}`;
  const state = process.state === 'closed' ? stateText(process) : 'it has exited';
  const advice = `'${commandFor('logs', place, process.ref)}' prints its output, '${commandFor('ps -a', place)}' lists it`;
  throw new RunError(`${nameOf(process)} has ended${at}: ${state}; ${advice}`, { kind: 'ended' });
}

function stillRunning(process: FoundProcess, place: Place): RunError {
  return new RunError(
    `${nameOf(process)} has not ended: ${stateText(process)}; '${commandFor('rm -f', place, nameOf(process))}' ends and removes it`,
    { kind: 'running' },
  );
}

function done(processes: readonly FoundProcess[], json = false): CommandResult {
  const entries = processes.map(({ ref, name }) => ({ ref, name }));
  return printed(json ? `${JSON.stringify(entries, null, 2)}\n` : '');
}

/** The name of a signal that was given as `TERM`, `sigterm` or `15`. Throws UsageError. */
export function signalName(text: string): string {
  const names = Object.keys(constants.signals);
  const isNumber = /^\d+$/.test(text);
  const name = isNumber
    ? names.find((each) => constants.signals[each as NodeJS.Signals] === Number(text))
    : names.find((each) => [each, each.slice(3)].includes(text.toUpperCase()));
  if (name !== undefined) return name;
  // Without SIG, which is the same in all of them and would make different names similar.
  const shortNames = names.map((each) => each.slice(3));
  const similar = isNumber ? null : suggestionFor(text.toUpperCase().replace(/^SIG/, ''), shortNames);
  const advice = similar ?? 'write a name such as TERM, HUP or USR1, or a number';
  throw new UsageError(`unknown signal ${quoteValue(text)}; ${advice}`, 'kill');
}
