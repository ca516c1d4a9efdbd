import type { ExecProcess, StartParams } from '../../../environment/index.ts';
import { DEFAULT_ENV_POLICY } from '../../launch/program-environment.ts';
import { commandRequest, startParams } from '../../launch/request.ts';
import { DEFAULT_YIELD_MS, MAX_YIELD_MS, MIN_YIELD_MS } from '../../limits.ts';
import { execWaitMs } from '../../wait-times.ts';
import { type Answer, type Call, defineTool } from '../call.ts';
import { ToolFailure } from '../failure.ts';
import { REQUEST_TIMEOUT_MS } from '../limits.ts';
import { type ArgumentsOf, flag, integer, text } from '../parameters.ts';
import { infoOf } from '../workspace.ts';
import { collect, FRESH } from './collect.ts';
import { START } from './cursor.ts';
import { detach } from './open-process.ts';
import { MAX_TOKENS, processAnswer } from './process-answer.ts';
import { sandboxHint } from './sandbox-hint.ts';
import { shownScreen } from './screen.ts';

const PARAMETERS = {
  cmd: text('The command, as typed into a shell.'),
  workdir: text(
    'Directory to run it in, absolute or relative to the working directory, which is the default.',
  ),
  tty: flag(
    'Run it on a terminal. Programs that ask questions or that you type into need it. Default false.',
  ),
  yield_time_ms: integer(
    `Milliseconds to wait for its end, ${MIN_YIELD_MS} to ${MAX_YIELD_MS}; ${DEFAULT_YIELD_MS} by default. It keeps running afterwards.`,
    { minimum: 0 },
  ),
  max_output_tokens: MAX_TOKENS,
  login: flag("Let the shell read the user's profile first. Default true."),
  name: text(
    'A name for the process, 1 to 64 letters, digits, dots, dashes or underscores, for other calls.',
  ),
  timeout: integer('Seconds after which the program is ended. Default: no limit.', { minimum: 1 }),
  timeout_ms: integer('The same in milliseconds, instead of timeout.', { minimum: 1 }),
} as const;

type Arguments = ArgumentsOf<typeof PARAMETERS, 'cmd'>;

export const EXEC_COMMAND = defineTool({
  name: 'exec_command',
  title: 'Run a command',
  description:
    'Runs a shell command and returns its output and exit code. A command that takes longer than yield_time_ms keeps running as a process, also after this conversation; the answer has its reference for the other tools. Use that and not "&": kill_process cannot end what an ended shell left behind. "2>&1" keeps stdout and stderr in order.',
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
  parameters: PARAMETERS,
  required: ['cmd'],
  summary: ({ cmd }) => cmd,
  run: execCommand,
});

async function execCommand(args: Arguments, call: Call): Promise<Answer> {
  if (args.cmd.trim() === '') throw new ToolFailure('"cmd" is empty. Pass the command to run.');
  if (args.timeout !== undefined && args.timeout_ms !== undefined)
    throw new ToolFailure('Pass "timeout" in seconds or "timeout_ms" in milliseconds, not both.');
  const { process, ref, sandboxed, shellName } = await start(args, call);
  try {
    const waitMs = execWaitMs(args.yield_time_ms, shellName);
    const collected = await collect(process, FRESH, call, { from: START, waitMs });
    const control = args.tty ? 'type' : 'end';
    const program = { command: args.cmd, sandbox: sandboxed ? ('own' as const) : null };
    return processAnswer(call, { ref, name: process.name, ...collected, control }, collected.output, {
      from: START,
      maxTokens: args.max_output_tokens,
      isCancelled: collected.end === 'cancelled',
      sandboxHint: await sandboxHint(call, program, collected),
      screen: await shownScreen(call, process, { tty: args.tty ?? false }, collected),
      structured: { wall_time_ms: Math.round(performance.now() - call.startedAt) },
    });
  } finally {
    detach(process);
  }
}

async function start(
  args: Arguments,
  call: Call,
): Promise<{
  readonly process: ExecProcess;
  readonly ref: string;
  readonly sandboxed: boolean;
  readonly shellName: string;
}> {
  const { target, workspace, callId, signal } = call;
  const { backend, processes, kind } = target.environment;
  const [info, cwd, sandbox] = await Promise.all([
    infoOf(target, signal),
    workspace.directory(target, signal),
    workspace.programSandbox(target, signal),
  ]);
  const shell = info.shell;
  const wallMs = args.timeout_ms ?? (args.timeout === undefined ? undefined : args.timeout * 1000);
  const request = commandRequest(
    { cmd: args.cmd, ...optional(args) },
    { id: target.name, backend, processes, shell, cwd },
    callId,
    true,
  );
  const params: StartParams = {
    ...startParams(
      request,
      `tool-${crypto.randomUUID()}`,
      sandbox,
      { callId },
      target.env === undefined
        ? { envPolicy: DEFAULT_ENV_POLICY, env: {} }
        : { envPolicy: { ...DEFAULT_ENV_POLICY, inherit: 'none' }, env: target.env },
    ),
    ...(args.name !== undefined && { name: args.name }),
    ...(wallMs !== undefined && { limits: { wallMs } }),
    // The programs of a server in this process end with it.
    ...(kind !== 'local' && { lifetime: { type: 'detached' as const } }),
  };
  // A start that is given up could still happen, and its program would be lost. It takes milliseconds.
  const process = await backend.start(params, { timeoutMs: REQUEST_TIMEOUT_MS });

  const { ref } = process;
  if (ref === null) {
    process.terminate().catch(() => {});
    throw new ToolFailure(
      `The server of the environment "${target.name}" cannot keep processes for later calls. The user has to choose a server with the capability processSharing.`,
    );
  }
  if (sandbox !== null) call.programs.add(target.name, ref, sandbox);
  const sandboxed = process.sandboxType === null ? sandbox !== null : process.sandboxType !== 'none';
  return { process, ref, sandboxed, shellName: shell.name };
}

function optional({ workdir, tty, login }: Arguments) {
  return {
    ...(workdir !== undefined && { workdir }),
    ...(tty !== undefined && { tty }),
    ...(login !== undefined && { login }),
  };
}
