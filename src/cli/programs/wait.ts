import type { ExecServerClient } from '../../client/client.ts';
import { ClientError } from '../../client/errors.ts';
import type { ProcessInfo } from '../../client/sharing.ts';
import type { CommandResult, Host } from '../commands.ts';
import { parseDuration } from '../duration.ts';
import { PROGRAM_EXIT_CODES, RunError } from '../failures.ts';
import { parseFlags } from '../flags.ts';
import { WAIT_FLAGS } from '../specs/process-specs.ts';
import { visible } from '../terminal-text.ts';
import { commandFor, lostText, type Place } from './endings.ts';
import { exitCodeOf, limitText, type ProgramEnd } from './exit-codes.ts';
import { type FoundProcess, findProcesses, nameOf, requireOperands } from './find-process.ts';
import { acrossSessions, isServerLost, processGoneError, reconnectingText } from './line-watch.ts';

/** Waits for the exits of processes. */
export async function waitCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('wait', argv, WAIT_FLAGS, 'files');
  requireOperands(positionals, 'wait');
  const timeoutMs = flags.timeout === undefined ? null : parseDuration(flags.timeout, '--timeout', 'wait');
  const deadline = timeoutMs === null ? null : performance.now() + timeoutMs;
  const line = {
    lost: () => {
      if (!flags.json) host.stderr.write(`exec-server: ${reconnectingText('Ctrl-C ends this command')}\n`);
    },
    restored: () => {},
  };
  let found: readonly FoundProcess[] | null = null;
  const known = new Map<string, ProcessEnd>();
  const ends = await acrossSessions(flags, host, 'exec-server wait', line, async ({ client, target }) => {
    const place = { target, tokenFile: flags['token-file'] ?? null };
    found ??= await findProcesses(client, positionals, { reads: true, place });
    return waitForAll(client, found, { known, deadline, place }).catch((error) => {
      throw isServerLost(error) ? lostProcesses(error, place, found!.map(nameOf)) : error;
    });
  });
  const failed = ends.find((end) => exitCodeOf(end) !== 0);
  const limits = ends.flatMap(({ ref, name, reason }) =>
    reason === null ? [] : [`exec-server wait: ${visible(nameOf({ ref, name }))}: ${limitText(reason)}\n`],
  );
  return {
    text: flags.json ? `${JSON.stringify(ends, null, 2)}\n` : '',
    details: flags.json ? '' : limits.join(''),
    exitCode: failed === undefined ? 0 : exitCodeOf(failed),
  };
}

/** How a process ended, as `--json` prints it. */
interface ProcessEnd extends ProgramEnd {
  readonly reason: ProcessInfo['reason'];
  readonly ref: string;
  readonly name: string | null;
}

interface WaitOptions {
  /** Keeps the ends that are known, by reference. */
  readonly known: Map<string, ProcessEnd>;
  readonly deadline: number | null;
  readonly place: Place;
}

/** Waits until all have exited. Rejects with RunError when the deadline has passed before. */
async function waitForAll(
  client: ExecServerClient,
  processes: readonly FoundProcess[],
  { known, deadline, place }: WaitOptions,
): Promise<readonly ProcessEnd[]> {
  const ends = processes.map(async (process): Promise<ProcessEnd> => {
    const { ref, name } = process;
    const present = known.get(ref);
    if (present !== undefined) return present;
    const options = deadline === null ? {} : { timeoutMs: Math.max(1, deadline - performance.now()) };
    const { exitCode, reason } = await client
      .call('process/wait', { processId: ref, until: 'exited' }, options)
      .catch((error) => {
        throw processGoneError(error, nameOf(process));
      });
    if (!Number.isInteger(exitCode) || exitCode === null)
      throw new RunError(`the server did not report the exit code of ${nameOf(process)}`);
    const end = { ref, name, exitCode, reason: reason ?? null };
    known.set(ref, end);
    return end;
  });
  try {
    return await Promise.all(ends);
  } catch (error) {
    if (!(error instanceof ClientError) || error.kind !== 'timeout') throw error;
    const running = processes.filter(({ ref }) => !known.has(ref)).map(nameOf);
    const [keeps, them] = running.length === 1 ? ['it keeps', 'it'] : ['they keep', 'them'];
    const kill = commandFor('kill', place, running.join(' '));
    throw new RunError(
      `${running.join(', ')} still ran after --timeout; ${keeps} running, '${kill}' ends ${them}`,
      { kind: 'timeout', exitCode: PROGRAM_EXIT_CODES.timedOut.code },
    );
  }
}

function lostProcesses(error: ClientError, place: Place, names: readonly string[]): RunError {
  const command = commandFor('wait', place, names.join(' '));
  return new RunError(`${lostText(error)}; ${names.join(', ')} may still run: '${command}' waits again`, {
    kind: error.kind,
  });
}
