import { ClientError } from '../../../client/errors.ts';
import type { ProcessInfo } from '../../../environment/index.ts';
import { type Answer, type Call, defineTool, requestOptions } from '../call.ts';
import { MAX_COMMAND_CHARACTERS, MAX_LISTED_PROCESSES } from '../limits.ts';
import { type ArgumentsOf, flag } from '../parameters.ts';
import { shownLine } from '../text/visible.ts';

const PARAMETERS = {
  running_only: flag('Leave out processes that have ended. Default false.'),
} as const;

export const LIST_PROCESSES = defineTool({
  name: 'list_processes',
  title: 'List processes',
  description:
    'Lists the processes of the environment, also those of earlier conversations: reference, name, state, exit code, ports that they listen on, and command. Processes that have ended are listed as long as their output is kept.',
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  parameters: PARAMETERS,
  required: [],
  summary: null,
  run: listProcesses,
});

async function listProcesses(args: ArgumentsOf<typeof PARAMETERS, never>, call: Call): Promise<Answer> {
  const all = (await listed(call)).filter(({ state }) => !args.running_only || state === 'running');
  const sorted = all.toSorted(
    (one, other) =>
      Number(other.state === 'running') - Number(one.state === 'running') ||
      other.startedAt.getTime() - one.startedAt.getTime(),
  );
  const shown = sorted.slice(0, MAX_LISTED_PROCESSES);
  const omitted = all.length - shown.length;
  const now = Date.now();
  const next = nextStep(call, shown.length > 0);
  const lines = [
    `${all.length} ${all.length === 1 ? 'process' : 'processes'} in the environment "${call.target.name}".`,
    ...shown.map((info) => lineOf(info, now)),
    ...(omitted === 0 ? [] : [`${omitted} older processes are not shown.`]),
    next,
  ];
  return {
    text: lines.join('\n'),
    structured: {
      environment: call.target.name,
      processes: shown.map(dataOf),
      omitted_processes: omitted,
      next,
    },
  };
}

function nextStep({ readOnly }: Call, hasProcesses: boolean): string {
  if (readOnly)
    return hasProcesses ? 'Next: pass a reference to read_output or wait_process.' : 'Next: nothing.';
  return hasProcesses
    ? 'Next: pass a reference to read_output, wait_process, write_stdin or kill_process.'
    : 'Next: exec_command starts a program.';
}

/** Lists processes with their ports where the server knows them. */
async function listed(call: Call): Promise<readonly ProcessInfo[]> {
  const { processes } = call.target.environment;
  const options = requestOptions(call);
  try {
    return await processes.list({ ports: true, ...options });
  } catch (error) {
    if (!(error instanceof ClientError) || !['unsupported', 'invalidInput'].includes(error.kind)) throw error;
    return processes.list(options);
  }
}

function lineOf(
  { ref, processId, name, state, exitCode, signal, ports, startedAt, argv }: ProcessInfo,
  now: number,
): string {
  const ended = `exited with code ${exitCode}${signal === null ? '' : ` (${signal})`}`;
  const parts = [
    `${ref ?? processId}${name === null ? '' : ` (${name})`}`,
    state === 'running' ? 'running' : ended,
    `started ${ageOf(now - startedAt.getTime())} ago`,
    ...(ports?.length ? [`listens on ${ports.join(', ')}`] : []),
    commandOf(argv),
  ];
  return `- ${parts.join('; ')}`;
}

function dataOf({
  ref,
  processId,
  name,
  state,
  exitCode,
  ports,
  startedAt,
  cwd,
  tty,
  outputBytes,
  argv,
}: ProcessInfo) {
  return {
    process: ref ?? processId,
    ...(name === null ? {} : { name }),
    state: state === 'running' ? 'running' : 'exited',
    exit_code: exitCode,
    ...(ports?.length ? { ports } : {}),
    command: commandOf(argv),
    workdir: cwd,
    tty,
    started_at: startedAt.toISOString(),
    output_bytes: outputBytes,
  };
}

/** The command of a shell is its last argument. */
function commandOf(argv: readonly string[]): string {
  const isShell = argv.length === 3 && /^-l?c$/.test(argv[1]!);
  const command = isShell ? argv[2]! : argv.join(' ');
  const line = command.replace(/\s+/g, ' ').trim();
  const cut = line.length <= MAX_COMMAND_CHARACTERS ? line : `${line.slice(0, MAX_COMMAND_CHARACTERS)}…`;
  return shownLine(cut);
}

function ageOf(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}
