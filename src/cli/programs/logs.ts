import type { ExecProcess, ProcessEvent } from '../../client/backend.ts';
import type { ExecServerClient } from '../../client/client.ts';
import { quoteValue } from '../../server/config/values.ts';
import type { CommandResult, Host } from '../commands.ts';
import { withClient } from '../environments/with-client.ts';
import { RunError, UsageError } from '../failures.ts';
import { parseFlags } from '../flags.ts';
import { LOGS_FLAGS } from '../specs/process-specs.ts';
import { limitOf } from './endings.ts';
import { findProcesses, nameOf, requireOperands } from './find-process.ts';
import { LogTail } from './log-tail.ts';
import { JsonOutput, PlainOutput, type ProgramOutput, StandardStreams } from './program-output.ts';

/** Prints the output of a process. */
export async function logsCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('logs', argv, LOGS_FLAGS);
  requireOperands(positionals, 'logs');
  if (positionals.length > 1) {
    throw new UsageError(`unexpected argument ${quoteValue(positionals[1])}; name one process`, 'logs');
  }
  const tail = wholeNumber(flags.tail, '--tail');
  const afterSeq = wholeNumber(flags['since-seq'], '--since-seq');
  if (tail !== null && afterSeq !== null)
    throw new UsageError('--tail and --since-seq exclude each other', 'logs');
  return withClient(flags, host, { clientName: 'exec-server logs' }, async ({ client }) => {
    const [found] = await findProcesses(client, positionals, { reads: true });
    const { ref, nextSeq } = found!;
    const lastSeq = nextSeq - 1;
    if (afterSeq !== null && afterSeq > lastSeq) {
      throw new RunError(
        `--since-seq is ${afterSeq}, but the last event of ${nameOf(found!)} is ${lastSeq}; the name may belong to another process by now, use its reference`,
        { kind: 'invalidInput' },
      );
    }
    const process = await attach(client, ref, afterSeq ?? 0, flags.timestamps === true);
    const streams = new StandardStreams(host.stdout, host.stderr);
    const output = flags.json ? new JsonOutput(streams) : new PlainOutput(streams, false);
    const readerGone = new AbortController();
    void output.readerGone.then(() => readerGone.abort());
    const log = new LogPrinter(client, process, output, readerGone.signal);
    try {
      await log.print({ lastSeq, afterSeq: afterSeq ?? 0, tail, follow: flags.follow === true });
    } catch (error) {
      if (!readerGone.signal.aborted) throw error;
    }
    await output.flush();
    if (readerGone.signal.aborted) return { text: '', exitCode: READER_GONE };
    return { text: '', exitCode: log.isIncomplete ? INCOMPLETE : 0 };
  });
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

interface Range {
  /** What is retained now ends with this event. */
  readonly lastSeq: number;
  readonly afterSeq: number;
  readonly tail: number | null;
  readonly follow: boolean;
}

/** Prints the events of a process. */
class LogPrinter {
  /** Whether output is missing. */
  isIncomplete = false;
  readonly #client: ExecServerClient;
  readonly #process: ExecProcess;
  readonly #output: ProgramOutput;
  readonly #readerGone: AbortSignal;

  constructor(
    client: ExecServerClient,
    process: ExecProcess,
    output: ProgramOutput,
    readerGone: AbortSignal,
  ) {
    this.#client = client;
    this.#process = process;
    this.#output = output;
    this.#readerGone = readerGone;
  }

  /** Prints what is retained now, or its last lines, and then what follows if that is wanted. Rejects when the reader is gone. */
  async print({ lastSeq, afterSeq, tail, follow }: Range): Promise<void> {
    let lines = tail === null ? null : new LogTail(tail);
    const ends: ProcessEvent[] = [];
    const endTail = async () => {
      if (lines === null) return;
      for (const event of [...lines.take(), ...ends]) await this.#write(event);
      lines = null;
    };
    if (lastSeq === afterSeq && !follow) return;
    if (lastSeq === 0) await endTail();
    for await (const event of this.#process.events({ signal: this.#readerGone })) {
      if (event.type === 'failed') throw lostProcess(this.#process, event.error);
      if (lines === null) await this.#write(event);
      else if (event.type === 'output') lines.output(event);
      else if (event.type === 'lost') lines.lost(event);
      else ends.push(event);
      if (seqOf(event) < lastSeq) continue;
      await endTail();
      if (!follow) return;
    }
  }

  /** Waits for a slow reader. */
  async #write(event: ProcessEvent): Promise<void> {
    if (event.type === 'output') {
      await this.#output.write(event.stream, event.seq, event.bytes, event.timeMs);
    } else if (event.type === 'lost') {
      this.isIncomplete = true;
      this.#output.lost(event);
    } else if (event.type === 'exited') {
      const { exitCode, sandboxDenied } = event;
      const reason = await limitOf(this.#client, this.#process, exitCode);
      this.#output.exited({ exitCode, reason, sandboxDenied });
    }
  }
}

function seqOf(event: Exclude<ProcessEvent, { type: 'failed' }>): number {
  return event.type === 'lost' ? event.toSeq : event.seq;
}

function lostProcess(process: ExecProcess, error: Error & { readonly kind: string }): RunError {
  return new RunError(
    `${error.message}; the program may still run, 'exec-server logs ${process.ref}' prints its output`,
    { kind: error.kind },
  );
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
