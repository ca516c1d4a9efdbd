import { type Answer, type Call, defineTool } from '../call.ts';
import { ToolFailure } from '../failure.ts';
import { REQUEST_TIMEOUT_MS } from '../limits.ts';
import { type ArgumentsOf, integer } from '../parameters.ts';
import { countLines, lastLines } from '../text/lines.ts';
import { collect } from './collect.ts';
import { controlOf } from './confinement.ts';
import { cursorOf, START } from './cursor.ts';
import { CURSOR, findProcess, PROCESS, startOf, withAttached } from './open-process.ts';
import { budgetOf, MAX_TOKENS, processAnswer } from './process-answer.ts';
import { programOf, sandboxHint } from './sandbox-hint.ts';
import { shownScreen } from './screen.ts';

const PARAMETERS = {
  process: PROCESS,
  cursor: CURSOR,
  tail_lines: integer('Return the last lines, this many, instead of reading from a cursor.', {
    minimum: 1,
    maximum: 100_000,
  }),
  max_output_tokens: MAX_TOKENS,
} as const;

type Arguments = ArgumentsOf<typeof PARAMETERS, 'process'>;

export const READ_OUTPUT = defineTool({
  name: 'read_output',
  title: 'Read the output of a process',
  description:
    'Returns output of a process without waiting, page by page from a cursor, or its last lines. Cursor "0" is the beginning. Output of a process that has ended stays readable for some time.',
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: false, openWorldHint: false },
  parameters: PARAMETERS,
  required: ['process'],
  summary: null,
  run: readOutput,
});

async function readOutput(args: Arguments, call: Call): Promise<Answer> {
  if (args.cursor !== undefined && args.tail_lines !== undefined) {
    throw new ToolFailure('Pass "cursor" or "tail_lines", not both.');
  }
  const info = await findProcess(call, args.process);
  return args.tail_lines === undefined
    ? readPage(args, call, info)
    : readTail(args.tail_lines, args, call, info);
}

type Info = Awaited<ReturnType<typeof findProcess>>;

async function readPage(args: Arguments, call: Call, info: Info): Promise<Answer> {
  const { ref, name } = info;
  const from = startOf(call, ref, args.cursor);
  const pageBytes = budgetOf(call, args.max_output_tokens);
  return withAttached(call, info, { afterSeq: from.seq }, async (process) => {
    const collected = await collect(process, info, call, { from, waitMs: REQUEST_TIMEOUT_MS, pageBytes });
    const { output, hasMore } = collected;
    const control = await controlOf(call, info, collected);
    const more = `Next: there is more output; read_output with process "${ref}" and cursor "${cursorOf(output.next, ref)}" returns it.`;
    return processAnswer(call, { ref, name, ...collected, control }, output, {
      from,
      maxTokens: args.max_output_tokens,
      sandboxHint: await sandboxHint(call, programOf(info), collected),
      screen: await shownScreen(call, process, info, collected),
      structured: { more_output: hasMore },
      ...(hasMore && { next: more }),
    });
  });
}

async function readTail(lines: number, args: Arguments, call: Call, info: Info): Promise<Answer> {
  const { ref, name } = info;
  return withAttached(call, info, { afterSeq: 0 }, async (process) => {
    const options = {
      from: START,
      waitMs: REQUEST_TIMEOUT_MS,
      pageBytes: Number.MAX_SAFE_INTEGER,
      keepsPage: false,
    };
    const collected = await collect(process, info, call, options);
    const { output } = collected;
    const control = await controlOf(call, info, collected);
    const end = output.omittedBytes > 0 ? output.tail : output.head;
    const tail = lastLines(end, lines, budgetOf(call, args.max_output_tokens));
    const isAll = output.omittedBytes === 0 && tail.length === end.length;
    const rest = isAll ? {} : { lostBytes: 0, isCut: false };
    const kept = { ...output, head: tail, tail: NO_BYTES, omittedBytes: 0, ...rest };
    const count = countLines(tail);
    return processAnswer(call, { ref, name, ...collected, control }, kept, {
      from: START,
      maxTokens: args.max_output_tokens,
      sandboxHint: await sandboxHint(call, programOf(info), collected),
      screen: await shownScreen(call, process, info, collected),
      ...(!isAll &&
        count < lines && {
          event: `Only the last ${count} lines are returned: more do not fit into one answer. read_output with a cursor returns others.`,
        }),
      structured: { more_output: false, lines: count },
    });
  });
}

const NO_BYTES = new Uint8Array(0);
