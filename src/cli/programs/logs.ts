import type { ExecProcess, ProcessEvent } from '../../client/backend.ts';
import type { ExecServerClient } from '../../client/client.ts';
import type { ClientError } from '../../client/errors.ts';
import { quoteValue } from '../../server/config/values.ts';
import type { CommandResult, Host } from '../commands.ts';
import { RunError, UsageError } from '../failures.ts';
import { parseFlags } from '../flags.ts';
import { LOGS_FLAGS } from '../specs/process-specs.ts';
import { commandFor, limitOf, lostText, type Place } from './endings.ts';
import { type FoundProcess, findProcesses, nameOf, requireOperands } from './find-process.ts';
import { acrossSessions, isServerLost, processGoneError, reconnectingText } from './line-watch.ts';
import { LogTail } from './log-tail.ts';
import { JsonOutput, PlainOutput, type ProgramOutput, StandardStreams } from './program-output.ts';

/** Prints the output of a process. */
export async function logsCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('logs', argv, LOGS_FLAGS, 'files');
  requireOperands(positionals, 'logs');
  if (positionals.length > 1) {
    throw new UsageError(`unexpected argument ${quoteValue(positionals[1])}; name one process`, 'logs');
  }
  const tail = wholeNumber(flags.tail, '--tail');
  const afterSeq = wholeNumber(flags['since-seq'], '--since-seq');
  if (tail !== null && afterSeq !== null)
    throw new UsageError('--tail and --since-seq exclude each other', 'logs');
  const streams = new StandardStreams(host.stdout, host.stderr);
  const output = flags.json ? new JsonOutput(streams) : new PlainOutput(streams, false);
  const readerGone = new AbortController();
  void output.readerGone.then(() => readerGone.abort());
  const log = new LogPrinter(output, { tail, follow: flags.follow === true, signal: readerGone.signal });
  const line = {
    lost: () => output.line('reconnecting', reconnectingText('Ctrl-C ends this command')),
    restored: () => output.line('reconnected', 'reconnected'),
  };
  let known: FoundProcess | null = null;
  try {
    await acrossSessions(flags, host, 'exec-server logs', line, async ({ client, target }) => {
      const place = { target, tokenFile: flags['token-file'] ?? null };
      const [found] =
        known === null ? await findProcesses(client, positionals, { reads: true, place }) : [known];
      if (known === null) log.begin(afterSeq ?? 0, lastSeqOf(found!, afterSeq));
      known = found!;
      const { ref } = known;
      const process = await attach(client, ref, log.seq, flags.timestamps === true).catch((error) => {
        throw processGoneError(error, nameOf(found!));
      });
      await log.print(client, process).catch((error) => {
        throw isServerLost(error) ? lostProcess(error, place, ref) : error;
      });
    });
  } catch (error) {
    if (!readerGone.signal.aborted) throw error;
  }
  await output.flush();
  if (output.failure !== null) throw output.failure;
  if (readerGone.signal.aborted) return { text: '', exitCode: READER_GONE };
  if (!log.isIncomplete) return { text: '', exitCode: 0 };
  const { ref, recording }: FoundProcess = known!;
  const hint = `exec-server: 'exec-server export --txt ${ref}' prints its recording\n`;
  return { text: '', details: recording !== null && !flags.json ? hint : '', exitCode: INCOMPLETE };
}

/** The last event that the server has now. Throws RunError when `afterSeq` is later. */
function lastSeqOf(process: FoundProcess, afterSeq: number | null): number {
  const lastSeq = process.nextSeq - 1;
  if (afterSeq === null || afterSeq <= lastSeq) return lastSeq;
  throw new RunError(
    `--since-seq is ${afterSeq}, but the last event of ${nameOf(process)} is ${lastSeq}; the name may belong to another process by now, use its reference`,
    { kind: 'invalidInput' },
  );
}

/** Attaches as a viewer. Rejects with RunError when the server does not know the time of output. */
function attach(
  client: ExecServerClient,
  ref: string,
  afterSeq: number,
  withTimes: boolean,
): Promise<ExecProcess> {
  if (!withTimes) return client.attach(ref, { afterSeq });
  if (client.capabilities.processOutputTimes) return client.attach(ref, { afterSeq, withTimes });
  throw new RunError(
    'the server does not report the time of output; leave --timestamps out, or use a newer server',
    { kind: 'unsupported' },
  );
}

/** What is printed, and until when. */
interface PrintOptions {
  /** How many lines of what is retained now; null for all. */
  readonly tail: number | null;
  /** Whether new output is printed too. */
  readonly follow: boolean;
  /** Aborts when nothing reads the output any more. */
  readonly signal: AbortSignal;
}

/** Prints the events of a process. Continues after a loss where it was. */
class LogPrinter {
  /** Whether output is missing. */
  isIncomplete = false;
  /** The last event that was printed, or the one to begin after. */
  seq = 0;
  readonly #output: ProgramOutput;
  readonly #options: PrintOptions;
  /** What is retained at the beginning ends with this event. */
  #lastSeq = 0;
  /** Whether only what follows the last lines is left to print. */
  #isTailDone: boolean;

  constructor(output: ProgramOutput, options: PrintOptions) {
    this.#output = output;
    this.#options = options;
    this.#isTailDone = options.tail === null;
  }

  /** Begins after an event. */
  begin(afterSeq: number, lastSeq: number): void {
    this.seq = afterSeq;
    this.#lastSeq = lastSeq;
  }

  /**
   * Prints what is retained, or its last lines, and then what follows if that is wanted. Rejects with ClientError when the process can no
   * longer be followed, and when the reader is gone.
   */
  async print(client: ExecServerClient, process: ExecProcess): Promise<void> {
    const { tail, follow, signal } = this.#options;
    const lines = this.#isTailDone ? null : new LogTail(tail!);
    const ends: ProcessEvent[] = [];
    const write = async (event: ProcessEvent) => {
      await this.#write(event, client, process);
      this.seq = seqOf(event) ?? this.seq;
    };
    const endTail = async () => {
      if (lines === null || this.#isTailDone) return;
      this.#isTailDone = true;
      for (const event of [...lines.take(), ...ends]) await write(event);
      this.seq = Math.max(this.seq, this.#lastSeq);
    };
    if (this.#lastSeq <= this.seq && !follow) return;
    if (this.#lastSeq === 0) await endTail();
    for await (const event of process.events({ signal })) {
      if (event.type === 'failed') throw event.error;
      if (lines === null || this.#isTailDone) await write(event);
      else if (event.type === 'output') lines.output(event);
      else if (event.type === 'lost') lines.lost(event);
      else ends.push(event);
      if (seqOf(event)! < this.#lastSeq) continue;
      await endTail();
      if (!follow) return;
    }
  }

  /** Waits for a slow reader. */
  async #write(event: ProcessEvent, client: ExecServerClient, process: ExecProcess): Promise<void> {
    if (event.type === 'output') {
      await this.#output.write(event.stream, event.seq, event.bytes, event.timeMs);
    } else if (event.type === 'lost') {
      this.isIncomplete = true;
      this.#output.lost(event);
    } else if (event.type === 'exited') {
      const { exitCode, sandboxDenied } = event;
      const reason = event.reason ?? (await limitOf(client, process, exitCode));
      this.#output.exited({ exitCode, reason, sandboxDenied });
    }
  }
}

/** The last number of an event; null for the failure of a connection. */
function seqOf(event: ProcessEvent): number | null {
  if (event.type === 'failed') return null;
  return event.type === 'lost' ? event.toSeq : event.seq;
}

function lostProcess(error: ClientError, place: Place, ref: string): RunError {
  const command = commandFor('logs', place, ref);
  return new RunError(`${lostText(error)}; the program may still run: '${command}' prints its output`, {
    kind: error.kind,
  });
}

/** The exit code when output is missing. */
const INCOMPLETE = 1;

/** The exit code when the reader of stdout has gone: that of a program that SIGPIPE ends. */
const READER_GONE = 141;

function wholeNumber(text: string | undefined, flag: string): number | null {
  if (text === undefined) return null;
  const number = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(number)) return number;
  throw new UsageError(`${flag} ${quoteValue(text)} is not a whole number`, 'logs');
}
