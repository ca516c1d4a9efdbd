import { sleep } from '../../../base/abort.ts';
import { type Answer, type Call, defineTool, requestOptions } from '../call.ts';
import {
  DEFAULT_WAIT_MS,
  MAX_WAIT_MS,
  MIN_REQUEST_TIMEOUT_MS,
  PORT_POLL_MS,
  REQUEST_TIMEOUT_MS,
} from '../limits.ts';
import { type ArgumentsOf, flag, integer, text } from '../parameters.ts';
import { OutputMatcher } from '../text/output-matcher.ts';
import { quoted } from '../text/visible.ts';
import { type Collected, collect } from './collect.ts';
import { controlOf } from './confinement.ts';
import { CURSOR, findProcess, PROCESS, startOf, withAttached } from './open-process.ts';
import { MAX_TOKENS, processAnswer } from './process-answer.ts';
import { programOf, sandboxHint } from './sandbox-hint.ts';
import { shownScreen } from './screen.ts';

const PARAMETERS = {
  process: PROCESS,
  pattern: text(
    'Also return when this text is in the output. Earlier output counts too, unless a cursor is given.',
  ),
  regex: flag('Whether the pattern is a JavaScript regular expression. Default false: it is a plain text.'),
  port: integer('Also return when the process listens on this TCP port.', { minimum: 1, maximum: 65_535 }),
  timeout_ms: integer(
    `Milliseconds to wait, at most ${MAX_WAIT_MS}; ${DEFAULT_WAIT_MS} by default. Call again to wait longer.`,
    { minimum: 0 },
  ),
  cursor: CURSOR,
  max_output_tokens: MAX_TOKENS,
} as const;

type Arguments = ArgumentsOf<typeof PARAMETERS, 'process'>;

export const WAIT_PROCESS = defineTool({
  name: 'wait_process',
  title: 'Wait for a process',
  description:
    'Waits until a process ends, a text is in its output, or it listens on a port, and returns the new output. Says which of them happened, or that the time is up and the process still runs.',
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: false, openWorldHint: false },
  parameters: PARAMETERS,
  required: ['process'],
  summary: null,
  run: waitProcess,
});

async function waitProcess(args: Arguments, call: Call): Promise<Answer> {
  const { pattern, port } = args;
  const matcher = pattern === undefined ? null : new OutputMatcher(pattern, args.regex ?? false);
  const { timeout_ms: wantedMs = DEFAULT_WAIT_MS } = args;
  const waitMs = Math.min(wantedMs, MAX_WAIT_MS);
  const timeoutMs = Math.min(REQUEST_TIMEOUT_MS, Math.max(waitMs, MIN_REQUEST_TIMEOUT_MS));
  const info = await findProcess(call, args.process, timeoutMs);
  const { ref, name } = info;
  const from = startOf(call, ref, args.cursor);
  const afterSeq = matcher !== null && args.cursor === undefined ? 0 : from.seq;
  return withAttached(call, info, { afterSeq, timeoutMs }, async (process) => {
    const listens = port === undefined ? null : new PortWait(call, ref, port);
    let isEarlier = false;
    try {
      const collected = await collect(process, info, call, {
        from,
        waitMs,
        // What an exited program has left behind may still print the text or open the port.
        until: matcher === null && listens === null ? 'exit' : 'silence',
        ...(matcher !== null && {
          onOutput: ({ seq, stream, bytes }) => {
            isEarlier = matcher.push(stream, bytes) && seq <= from.seq;
            return matcher.found !== null;
          },
        }),
        ...(listens !== null && { stop: listens.found }),
      });
      listens?.check();
      const happened = whatHappened(collected, matcher);
      const control = await controlOf(call, info, collected);
      return processAnswer(call, { ref, name, ...collected, control }, collected.output, {
        from,
        maxTokens: args.max_output_tokens,
        isCancelled: happened === 'cancelled',
        sandboxHint: await sandboxHint(call, programOf(info), collected),
        screen: await shownScreen(call, process, info, collected),
        ...(happened !== 'cancelled' &&
          happened !== 'disconnected' && {
            event: `${eventText(happened, args, matcher)}${isEarlier ? EARLIER : ''}${waitMs < wantedMs ? CUT_WAIT : ''}`,
          }),
        structured: {
          happened,
          ...(matcher?.found != null && { matched: matcher.found.slice(0, MAX_SHOWN), earlier: isEarlier }),
        },
      });
    } finally {
      listens?.stop();
    }
  });
}

type Happened = 'exit' | 'pattern' | 'port' | 'timeout' | 'cancelled' | 'disconnected';

function whatHappened({ end, exitCode, isUnreachable }: Collected, matcher: OutputMatcher | null): Happened {
  if (matcher?.found != null) return 'pattern';
  if (end === 'stopped') return 'port';
  if (exitCode !== null && end !== 'cancelled') return 'exit';
  if (end === 'cancelled') return 'cancelled';
  return isUnreachable ? 'disconnected' : 'timeout';
}

function eventText(
  happened: Exclude<Happened, 'cancelled' | 'disconnected'>,
  { pattern, port }: Arguments,
  matcher: OutputMatcher | null,
): string {
  const wanted = [
    ...(pattern === undefined ? [] : ['the pattern was found']),
    ...(port === undefined ? [] : [`it listened on port ${port}`]),
  ].join(' or ');
  switch (happened) {
    case 'pattern':
      return `Found in the output: ${quoted(matcher!.found!.slice(0, MAX_SHOWN))}`;
    case 'port':
      return `The process listens on port ${port}.`;
    case 'exit':
      return wanted === '' ? 'The program has ended.' : `The program ended before ${wanted}.`;
    case 'timeout':
      return `The time is up${wanted === '' ? '' : ` before ${wanted}`}; the program still runs. Call wait_process again to wait longer.`;
  }
}

const MAX_SHOWN = 200;
const CUT_WAIT = ` One call waits ${MAX_WAIT_MS} ms at most, so timeout_ms was cut to that.`;
const EARLIER = ' This output was returned before. To wait for new output, pass the next cursor.';

/** Aborts {@link found} when a process listens on a port. */
class PortWait {
  readonly #found = new AbortController();
  readonly #stop = new AbortController();
  #failure: unknown = null;

  constructor(call: Call, ref: string, port: number) {
    this.#poll(call, ref, port).catch((error: unknown) => {
      if (this.#stop.signal.aborted) return;
      this.#failure = error;
      this.#found.abort();
    });
  }

  get found(): AbortSignal {
    return this.#found.signal;
  }

  /** Throws when the ports could not be listed. */
  check(): void {
    if (this.#failure !== null) throw this.#failure;
  }

  stop(): void {
    this.#stop.abort();
  }

  async #poll(call: Call, ref: string, port: number): Promise<void> {
    const { signal } = this.#stop;
    const { processes } = call.target.environment;
    while (!signal.aborted) {
      const listed = await processes.list({ ports: true, ...requestOptions({ signal }) });
      if (listed.find((info) => info.ref === ref)?.ports?.includes(port)) {
        this.#found.abort();
        return;
      }
      await sleep(PORT_POLL_MS, signal);
    }
  }
}
