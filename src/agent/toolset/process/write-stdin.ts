import { ClientError } from '../../../client/errors.ts';
import type { ExecProcess } from '../../../environment/index.ts';
import { DEFAULT_WRITE_YIELD_MS, MAX_YIELD_MS, MIN_POLL_MS, MIN_YIELD_MS } from '../../limits.ts';
import { pollWaitMs, writeWaitMs } from '../../wait-times.ts';
import { type Answer, type Call, defineTool, requestOptions } from '../call.ts';
import { ToolFailure } from '../failure.ts';
import { MAX_WAIT_MS } from '../limits.ts';
import { type ArgumentsOf, integer, text } from '../parameters.ts';
import { collect } from './collect.ts';
import { controlOf, requireConfined } from './confinement.ts';
import { CURSOR, controlling, findProcess, PROCESS, startOf, withAttached } from './open-process.ts';
import { MAX_TOKENS, processAnswer } from './process-answer.ts';
import { programOf, sandboxHint } from './sandbox-hint.ts';
import { shownScreen } from './screen.ts';

const PARAMETERS = {
  process: PROCESS,
  chars: text(
    'What to type: "\\n" is the return key, "\\u0003" is Ctrl-C. Empty: only wait for output. A process without a terminal accepts only Ctrl-C.',
  ),
  yield_time_ms: integer(
    `Milliseconds to wait for output. With input ${MIN_YIELD_MS} to ${MAX_YIELD_MS}, ${DEFAULT_WRITE_YIELD_MS} by default; without ${MIN_POLL_MS} to ${MAX_WAIT_MS}.`,
    { minimum: 0 },
  ),
  cursor: CURSOR,
  max_output_tokens: MAX_TOKENS,
} as const;

type Arguments = ArgumentsOf<typeof PARAMETERS, 'process'>;

export const WRITE_STDIN = defineTool({
  name: 'write_stdin',
  title: 'Type into a process',
  description:
    'Types into a process that runs on a terminal (exec_command with tty), or only waits for it, and returns the new output. It also works with processes of earlier conversations.',
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
  parameters: PARAMETERS,
  required: ['process'],
  summary: ({ process, chars = '' }) =>
    chars === '' ? null : `type ${JSON.stringify(chars)} into ${process}`,
  run: writeStdin,
});

async function writeStdin(args: Arguments, call: Call): Promise<Answer> {
  const { chars = '' } = args;
  const info = await findProcess(call, args.process);
  const { ref, name, tty } = info;
  const from = startOf(call, ref, args.cursor);
  const isTyped = chars !== '' && info.state === 'running';
  if (isTyped) await requireConfined(call, info);
  if (isTyped && !tty) await interrupt(call, ref, chars);
  const drive = isTyped && tty;
  return withAttached(call, info, { afterSeq: from.seq, drive }, async (process) => {
    if (drive) await type(process, chars, call);
    const waitMs = isTyped ? writeWaitMs(args.yield_time_ms) : pollWaitMs(args.yield_time_ms, MAX_WAIT_MS);
    const collected = await collect(process, info, call, { from, waitMs });
    const control = await controlOf(call, info, collected);
    const isLate = chars !== '' && !isTyped;
    return processAnswer(call, { ref, name, ...collected, control }, collected.output, {
      from,
      maxTokens: args.max_output_tokens,
      isCancelled: collected.end === 'cancelled',
      sandboxHint: await sandboxHint(call, programOf(info), collected),
      screen: await shownScreen(call, process, info, collected),
      ...(isLate && { event: 'Nothing was typed: the program has ended.', isError: true }),
    });
  });
}

/** Without a terminal only an interrupt is possible. */
async function interrupt(call: Call, ref: string, chars: string): Promise<void> {
  if (chars !== INTERRUPT) {
    throw new ToolFailure(
      `Process ${ref} has no terminal, so nothing can be typed into it. Run the command again with exec_command and tty true, or pipe the input into it.`,
    );
  }
  const { processes } = call.target.environment;
  const options = requestOptions(call);
  await controlling(
    call,
    ref,
    () => processes.signal(ref, 'interrupt', options),
    (process) => process.signal('interrupt', options),
  );
}

/** Types as the driver. A concurrent call that only reads may have made this connection a viewer again. */
async function type(process: ExecProcess, chars: string, call: Call): Promise<void> {
  const options = requestOptions(call);
  try {
    await process.write(chars, options);
  } catch (error) {
    const kind = error instanceof ClientError ? error.kind : null;
    if (kind === 'stdinClosed') return;
    if (kind !== 'conflict') throw error;
    await process.takeOver(options);
    await process.write(chars, options);
  }
}

const INTERRUPT = '\u0003';
