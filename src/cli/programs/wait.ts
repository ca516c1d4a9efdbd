import type { ExecServerClient } from '../../client/client.ts';
import { ClientError } from '../../client/errors.ts';
import type { ProcessInfo } from '../../client/sharing.ts';
import type { CommandResult, Host } from '../commands.ts';
import { parseDuration } from '../duration.ts';
import { withClient } from '../environments/with-client.ts';
import { PROGRAM_EXIT_CODES, RunError } from '../failures.ts';
import { parseFlags } from '../flags.ts';
import { WAIT_FLAGS } from '../specs/process-specs.ts';
import { exitCodeOf, limitText, type ProgramEnd } from './exit-codes.ts';
import { type FoundProcess, findProcesses, nameOf, requireOperands } from './find-process.ts';

/** Waits for the exits of processes. */
export async function waitCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('wait', argv, WAIT_FLAGS);
  requireOperands(positionals, 'wait');
  const timeoutMs = flags.timeout === undefined ? null : parseDuration(flags.timeout, '--timeout', 'wait');
  return withClient(flags, host, { clientName: 'exec-server wait' }, async ({ client }) => {
    const processes = await findProcesses(client, positionals, { reads: true });
    const ends = await waitForAll(client, processes, timeoutMs);
    const failed = ends.find((end) => exitCodeOf(end) !== 0);
    const limits = ends.flatMap(({ ref, name, reason }) =>
      reason === null ? [] : [`exec-server wait: ${nameOf({ ref, name })}: ${limitText(reason)}\n`],
    );
    return {
      text: flags.json ? `${JSON.stringify(ends, null, 2)}\n` : '',
      details: limits.join(''),
      exitCode: failed === undefined ? 0 : exitCodeOf(failed),
    };
  });
}

/** How a process ended, as `--json` prints it. */
interface ProcessEnd extends ProgramEnd {
  readonly reason: ProcessInfo['reason'];
  readonly ref: string;
  readonly name: string | null;
}

/** Waits until all have exited. Rejects with RunError when the time has passed before. */
async function waitForAll(
  client: ExecServerClient,
  processes: readonly FoundProcess[],
  timeoutMs: number | null,
): Promise<readonly ProcessEnd[]> {
  const running = new Set(processes);
  const ends = processes.map(async (process): Promise<ProcessEnd> => {
    const { ref, name } = process;
    const options = timeoutMs === null ? {} : { timeoutMs };
    const { exitCode, reason } = await client.call(
      'process/wait',
      { processId: ref, until: 'exited' },
      options,
    );
    running.delete(process);
    if (exitCode === null)
      throw new RunError(`the server did not report the exit code of ${nameOf(process)}`);
    return { ref, name, exitCode, reason: reason ?? null };
  });
  try {
    return await Promise.all(ends);
  } catch (error) {
    if (!(error instanceof ClientError) || error.kind !== 'timeout') throw error;
    throw new RunError(
      `${[...running].map(nameOf).join(', ')} still ran after --timeout; it keeps running, 'exec-server kill' ends it`,
      { kind: 'timeout', exitCode: PROGRAM_EXIT_CODES.timedOut.code },
    );
  }
}
