import type { Answer, Call } from '../call.ts';
import { UNKNOWN_STATE } from '../errors.ts';
import { RETAINED_BYTES } from '../limits.ts';
import { integer } from '../parameters.ts';
import { resourceOf } from '../resource-uri.ts';
import { bytesOfTokens, modelOutput } from '../text/budget.ts';
import type { Control } from './confinement.ts';
import { cursorOf, type Position } from './cursor.ts';
import type { CollectedOutput } from './output-window.ts';
import type { ShownScreen } from './screen.ts';

/** The parameter that limits the output. */
export const MAX_TOKENS = integer(
  'Tokens of output to return, at least 64. More is shortened in the middle.',
  { minimum: 0 },
);

/** What an answer says about a process. */
interface ProcessFacts {
  readonly ref: string;
  readonly name: string | null;
  /** Null while the program runs. */
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** The limit of the server that ended the program. */
  readonly reason: string | null;
  /** All its output has arrived. */
  readonly closed: boolean;
  /** The connection is lost. */
  readonly isUnreachable: boolean;
  /** What a model can do with it. */
  readonly control: Control;
}

/** An answer with output of a process: its state, the output, and what to call next. */
export function processAnswer(
  call: Call,
  facts: ProcessFacts,
  output: CollectedOutput,
  details: {
    readonly from: Position;
    /** What the model has asked for. */
    readonly maxTokens: number | undefined;
    /** Whether the call was cancelled. */
    readonly isCancelled?: boolean;
    /** What happened, before the state. */
    readonly event?: string;
    /** What to know of the sandbox that probably stopped the program. */
    readonly sandboxHint?: string | null;
    readonly screen?: ShownScreen | null;
    readonly structured?: Readonly<Record<string, unknown>>;
    readonly next?: string;
    readonly isError?: boolean;
  },
): Answer {
  const { ref, name, exitCode, signal, reason, closed, isUnreachable } = facts;
  const budgetBytes = budgetOf(call, details.maxTokens);
  const { head, lostBytes } = wholeLines(output);
  const shown = modelOutput(head, output.tail, output.omittedBytes, budgetBytes);
  call.positions.set(call.target.name, ref, output.next);
  const cursor = cursorOf(output.next, ref);
  const from = cursorOf(details.from, ref);
  const next = details.next ?? nextStep(facts, shown.omittedBytes > 0, from);
  const lost = lossText(lostBytes);
  const expired = shown.omittedBytes > 0 && output.expiredBytes > 0;
  const screen = details.screen ?? null;
  const lines = [
    ...(details.isCancelled ? [CANCELLED] : []),
    ...(details.event === undefined ? [] : [details.event]),
    ...(details.sandboxHint == null ? [] : [details.sandboxHint]),
    stateText(facts),
    ...(lost === null ? [] : [lost]),
    ...(expired ? [expiredText(output.expiredBytes)] : []),
    ...(shown.isBinary ? [BINARY_HINT] : []),
    `Next cursor: ${cursor}`,
    next,
    ...(screen === null ? [] : [screenText(screen, budgetBytes)]),
    ...(screen?.isFullScreen ? [] : [shown.text === '' ? 'Output: (none)' : `Output:\n${shown.text}`]),
  ];
  const omitted = shown.omittedBytes > 0 || shown.isBinary;
  return {
    text: lines.join('\n'),
    isError: details.isError ?? isUnreachable,
    structured: {
      environment: call.target.name,
      process: ref,
      ...(name === null ? {} : { name }),
      state: isUnreachable ? 'unknown' : exitCode === null ? 'running' : 'exited',
      exit_code: exitCode,
      ...(signal === null ? {} : { signal }),
      ...(reason === null ? {} : { ended_by_limit: reason }),
      ...(exitCode !== null && !closed ? { output_open: true } : {}),
      ...(details.isCancelled && { cancelled: true }),
      ...(details.sandboxHint != null && { sandbox_denied: true }),
      ...details.structured,
      output: shown.text,
      ...(screen !== null && { screen: screen.text, screen_cursor: screen.cursor }),
      from_cursor: from,
      next_cursor: cursor,
      omitted_bytes: shown.omittedBytes,
      lost_bytes: lostBytes,
      next,
    },
    resources: omitted ? [resourceOf(call.target.name, { type: 'output', ref })] : [],
  };
}

/** Bytes of output that a call may return. */
export function budgetOf({ maxOutputTokens }: Call, wanted: number | undefined): number {
  return bytesOfTokens(Math.min(wanted ?? maxOutputTokens, maxOutputTokens));
}

function screenText({ text, cursor }: ShownScreen, budgetBytes: number): string {
  const bytes = Buffer.from(text);
  const cut = modelOutput(bytes, NO_BYTES, 0, budgetBytes).text;
  return `Screen (the cursor is in row ${cursor.row}, column ${cursor.column}):\n${cut}`;
}

const NO_BYTES = new Uint8Array(0);

const CANCELLED = 'The call was cancelled. The program was not: it keeps running.';

/** The state of a process in one sentence. */
function stateText({ ref, name, exitCode, signal, reason, closed, isUnreachable }: ProcessFacts): string {
  const shown = `Process ${ref}${name === null ? '' : ` (${name})`}`;
  if (isUnreachable)
    return `The connection to the server of ${shown.toLowerCase()} is lost. ${UNKNOWN_STATE}`;
  if (exitCode === null) return `${shown} is running.`;
  const cause =
    reason !== null
      ? `, because it exceeded its ${LIMITS.get(reason) ?? reason} limit`
      : signal !== null
        ? ` (${signal})`
        : '';
  const open = closed ? '' : '; a program that it started is still running and may write more output';
  return `${shown} exited with code ${exitCode}${cause}${open}.`;
}

const LIMITS: ReadonlyMap<string, string> = new Map([
  ['oom', 'memory'],
  ['timeout', 'time'],
  ['idle', 'idle time'],
  ['outputLimit', 'output'],
]);

const BINARY_HINT =
  'The output is not text. Write it to a file, or convert it, for example with xxd or base64.';

function lossText(bytes: number | null): string | null {
  if (bytes === 0) return null;
  return `${bytes ?? 'Some'} bytes of output before this are lost: the server keeps only the last part. ${TO_FILE}`;
}

function expiredText(bytes: number): string {
  return `The server no longer has about ${bytes} bytes of the beginning: by default it keeps the last ${RETAINED_BYTES} bytes of each stream. ${TO_FILE}`;
}

const TO_FILE = 'To read all of a long output, redirect it to a file and use read_file.';

/** The output without the rest of a line whose beginning is lost. */
function wholeLines({
  head,
  lostBytes,
  isCut,
}: CollectedOutput): Pick<CollectedOutput, 'head' | 'lostBytes'> {
  const start = isCut ? head.subarray(0, MAX_LINE_REST_BYTES).indexOf(NEWLINE) + 1 : 0;
  return { head: head.subarray(start), lostBytes: lostBytes === null ? null : lostBytes + start };
}

const NEWLINE = 0x0a;
const MAX_LINE_REST_BYTES = 4_096;

function nextStep(
  { ref, exitCode, closed, isUnreachable, control }: ProcessFacts,
  isShortened: boolean,
  from: string,
): string {
  if (isUnreachable)
    return `Next: wait_process with process "${ref}"; if the server stays unreachable, ask the user.`;
  const rest = isShortened
    ? ` read_output with process "${ref}" and cursor "${from}" shows what the server still has of what is omitted.`
    : '';
  if (exitCode !== null && !closed && !isShortened)
    return `Next: read_output with process "${ref}" returns what is written later${ENDS_REST[control]}.`;
  if (exitCode !== null) return isShortened ? `Next:${rest}` : 'Next: nothing; the program has ended.';
  return `Next: wait_process with process "${ref}" waits for its end, a text or a port${CONTROLS[control]}.${rest}`;
}

/** What can be done with a program that runs. */
const CONTROLS: Readonly<Record<Control, string>> = {
  type: '; write_stdin types into it; kill_process ends it',
  end: '; kill_process ends it',
  none: '; it can only be read and waited for from here',
  unknown: '',
};

/** What can be done with what an ended program has left running. */
const ENDS_REST: Readonly<Record<Control, string>> = {
  type: '; kill_process ends what is still running',
  end: '; kill_process ends what is still running',
  none: '',
  unknown: '',
};
