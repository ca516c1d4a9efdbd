import { type Answer, type Call, defineTool, requestOptions } from '../call.ts';
import { ToolFailure } from '../failure.ts';
import { KILL_GRACE_MS, KILL_WAIT_MS } from '../limits.ts';
import { type ArgumentsOf, text } from '../parameters.ts';
import { type Collected, collect } from './collect.ts';
import { controlOf, requireConfined } from './confinement.ts';
import { controlling, findProcess, PROCESS, startOf, withAttached } from './open-process.ts';
import { processAnswer } from './process-answer.ts';

const PARAMETERS = {
  process: PROCESS,
  signal: text(
    'A signal to send to the program, such as SIGINT or SIGHUP. Default: ends the program and everything that it started.',
  ),
} as const;

type Arguments = ArgumentsOf<typeof PARAMETERS, 'process'>;

export const KILL_PROCESS = defineTool({
  name: 'kill_process',
  title: 'End a process',
  description:
    'Ends a process and everything that it started, or sends it a signal. Says whether it has ended, and returns its last output.',
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  parameters: PARAMETERS,
  required: ['process'],
  summary: ({ process, signal }) =>
    signal === undefined ? `end ${process}` : `send ${signal} to ${process}`,
  run: killProcess,
});

async function killProcess(args: Arguments, call: Call): Promise<Answer> {
  const signal = args.signal === undefined ? null : signalName(args.signal);
  const info = await findProcess(call, args.process);
  const { ref, name } = info;
  const isOver = info.state === 'closed';
  if (!isOver) await requireConfined(call, info);
  if (!isOver) await end(call, ref, signal);
  const from = startOf(call, ref, undefined);
  return withAttached(call, info, { afterSeq: from.seq }, async (process) => {
    const collected = await collect(process, info, call, {
      from,
      ...(signal === null
        ? { waitMs: KILL_WAIT_MS, until: 'close' }
        : { waitMs: KILL_GRACE_MS, until: 'exit' }),
    });
    const control = await controlOf(call, info, collected);
    return processAnswer(call, { ref, name, ...collected, control }, collected.output, {
      from,
      maxTokens: undefined,
      event: isOver ? NOTHING_DONE : eventText(collected, signal),
      structured: { ended: collected.exitCode !== null },
    });
  });
}

/** A signal reaches only the program. Without one, the server ends what it started as well. */
function eventText({ exitCode, closed }: Collected, signal: string | null): string {
  if (exitCode === null) {
    return `${signal === null ? 'The process was asked to end' : `${signal} was sent`}, but it still runs.`;
  }
  if (!closed) return 'The program has ended. Not ended is a program that it started.';
  return signal === null
    ? 'The process has ended.'
    : `The program has ended. ${signal} was sent to it alone: ${LEFT_BEHIND}`;
}

const LEFT_BEHIND =
  'programs that it left in the background are not ended by this; find them with exec_command and ps.';

const NOTHING_DONE = `Nothing was done: the process had already ended. Note that ${LEFT_BEHIND}`;

async function end(call: Call, ref: string, signal: string | null): Promise<void> {
  const { processes } = call.target.environment;
  const options = requestOptions(call);
  const mode = { type: 'graceful', timeoutMs: KILL_GRACE_MS } as const;
  await controlling(
    call,
    ref,
    () =>
      signal === null ? processes.terminate(ref, mode, options) : processes.signal(ref, signal, options),
    (process) => (signal === null ? process.terminate(mode, options) : process.signal(signal, options)),
  );
}

function signalName(text: string): string {
  const name = text.trim().toUpperCase();
  if (/^(?:SIG)?[A-Z][A-Z0-9+-]{1,9}$/.test(name)) return name.startsWith('SIG') ? name : `SIG${name}`;
  throw new ToolFailure(`${JSON.stringify(text.slice(0, 40))} is not a signal. Pass a name such as SIGINT.`);
}
