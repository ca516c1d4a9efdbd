import { type CommandResult, type Host, printed } from '../commands.ts';
import { withClient } from '../environments/with-client.ts';
import { parseOnlyFlags } from '../flags.ts';
import { PS_FLAGS } from '../specs/process-specs.ts';
import { table } from '../table.ts';
import { commandLine, usesColours } from '../terminal-text.ts';
import { limitText } from './exit-codes.ts';
import { type FoundProcess, listed } from './find-process.ts';

/** Lists processes. */
export async function psCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const flags = parseOnlyFlags('ps', argv, PS_FLAGS);
  const options = { clientName: 'exec-server ps', detachedSessionTtlMs: 0, whileDraining: true };
  const everyOwner = flags['all-owners'] === true;
  return withClient(flags, host, options, async ({ client }) => {
    const processes = await listed(client, everyOwner ? 'server' : 'owner', true);
    const shown = flags.all ? processes : processes.filter(({ state }) => state !== 'closed');
    return printed(
      flags.json ? `${JSON.stringify(shown, null, 2)}\n` : processTable(shown, everyOwner, host),
    );
  });
}

function processTable(processes: readonly FoundProcess[], everyOwner: boolean, host: Host): string {
  const stdout = host.stdout as Partial<NodeJS.WriteStream>;
  const owner = (text: string) => (everyOwner ? [text] : []);
  const isRecorded = processes.some(({ recording }) => recording !== null);
  const recorded = (text: string) => (isRecorded ? [text] : []);
  const now = Date.now();
  const rows = processes.map((process) => [
    process.ref,
    process.name ?? '-',
    ...owner(process.owner ?? '-'),
    stateText(process),
    ageText(now - process.startedAt.getTime()),
    process.ports?.join(',') || '-',
    process.size === null ? '-' : `${process.size.cols}x${process.size.rows}`,
    String(process.attached.length),
    ...recorded(process.recording?.state ?? '-'),
    `${commandLine(process.argv)}${process.argvTruncated ? '…' : ''}`,
  ]);
  const head = ['REF', 'NAME', ...owner('OWNER'), 'STATE', 'AGE', 'PORTS', 'TTY', 'ATTACHED'];
  head.push(...recorded('RECORDING'), 'COMMAND');
  const stateColumn = head.indexOf('STATE');
  const colour = (cell: string, row: number, column: number): string => {
    if (row === 0) return `\x1b[1m${cell}\x1b[0m`;
    return column === stateColumn ? `${stateColour(processes[row - 1]!)}${cell}\x1b[0m` : cell;
  };
  return table([head, ...rows], {
    ...(stdout.isTTY && stdout.columns && { width: stdout.columns }),
    ...(usesColours(host.env, stdout) && { colour }),
  });
}

/** The state of a process in words. */
export function stateText({ state, exitCode, signal, reason }: FoundProcess): string {
  if (state === 'starting' || state === 'running') return state;
  const end = reason === null ? `exited ${exitText(exitCode ?? 0, signal)}` : limitText(reason);
  return state === 'closed' ? end : `${end}, output open`;
}

/** The exit code. Signals end programs with 128 + n, which programs may also do themselves. */
function exitText(exitCode: number, signal: string | null): string {
  return signal === null ? String(exitCode) : `${exitCode} (${signal})`;
}

function stateColour({ state, exitCode, reason }: FoundProcess): string {
  if (state === 'starting' || state === 'running') return GREEN;
  return exitCode === 0 && reason === null ? GREY : RED;
}

const [GREEN, RED, GREY] = ['\x1b[32m', '\x1b[31m', '\x1b[90m'];

/** A time in its largest unit. A server whose clock is ahead started it just now. */
export function ageText(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 48 * 3_600) return `${Math.floor(seconds / 3_600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}
