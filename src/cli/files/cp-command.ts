import { lstat } from 'node:fs/promises';
import { messageWithoutHint } from '../../client/errors.ts';
import { failedWith } from '../../client/files/file-errors.ts';
import { transferBetween } from '../../client/files/transfer/transfers.ts';
import {
  type SkippedPath,
  TransferError,
  type TransferOptions,
  type TransferResult,
  type UnfinishedPart,
} from '../../client/files/transfer-result.ts';
import { toFileUri } from '../../client/paths.ts';
import { quoteValue } from '../../server/config/values.ts';
import type { CommandResult, Host } from '../commands.ts';
import { PROGRAM_EXIT_CODES, RunError, UsageError } from '../failures.ts';
import { type GivenFlags, parseFlags } from '../flags.ts';
import { CP_FLAGS } from '../specs/copy-spec.ts';
import { visible, withoutErrorNumber } from '../terminal-text.ts';
import { type FileEnd, Machines } from './machines.ts';
import { type FileOperand, parseOperand } from './operands.ts';
import { ProgressLine } from './transfer-progress.ts';

/** Copies files between this machine and environments. */
export async function cpCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('cp', argv, CP_FLAGS, 'files');
  const operands = positionals.map((text) => parseOperand(text, 'cp'));
  const destination = operands.pop();
  if (destination === undefined || operands.length === 0) {
    throw new UsageError('cp needs a source and a destination', 'cp');
  }
  refuseStreams(operands, destination);
  if ([destination, ...operands].every(({ environment }) => environment === null)) {
    throw new UsageError('no path is in an environment; write ENV:PATH, or :PATH for that of -E', 'cp');
  }
  const interrupted = new AbortController();
  host.onSignal((signal) => {
    if (interrupted.signal.aborted) host.exit(exitCodeOf(signal));
    interrupted.abort(signal);
  });
  const machines = new Machines('cp', flags, host.env, interrupted.signal);
  let next = 'run the same command to continue';
  try {
    const to = await machines.end(destination, 'write');
    const sources = await Promise.all(operands.map((operand) => machines.end(operand, 'read')));
    // Everything is checked before anything is copied.
    const copies = sources.map((from) => ({ from, to: targetOf(from, to, sources.length) }));
    for (const copy of copies) check(copy.from, copy.to, flags);
    refuseSameTarget(copies.filter(({ to: target }) => target !== to));
    if (to.kind === null) next = continuation(sources) ?? next;
    return await new CopyRun(host, flags, machines.signal).run(copies, next);
  } catch (error) {
    if (interrupted.signal.aborted) throw interruption(error, String(interrupted.signal.reason), next);
    throw machines.isServerGone ? serverGone(error, next) : error;
  } finally {
    await machines.close();
  }
}

/** For other programs `-` means stdin or stdout. Here it would create a file with that name. */
function refuseStreams(sources: readonly FileOperand[], destination: FileOperand): void {
  const isStream = ({ environment, path }: FileOperand) => environment === null && path === '-';
  if (isStream(destination)) {
    throw new UsageError(
      "cp does not write to stdout; 'exec-server run -- cat FILE' does. Write ./- for a file of that name",
      'cp',
    );
  }
  if (sources.some(isStream)) {
    throw new UsageError(
      "cp does not read stdin; 'exec-server run -- tee FILE' does. Write ./- for a file of that name",
      'cp',
    );
  }
}

interface Copy {
  readonly from: FileEnd;
  readonly to: FileEnd;
}

/** Copies one source after the other and collects what was done. */
class CopyRun {
  readonly #host: Host;
  readonly #flags: GivenFlags<typeof CP_FLAGS>;
  readonly #signal: AbortSignal;
  readonly #progress: ProgressLine | null;
  readonly #failed: SkippedPath[] = [];
  readonly #startedMs = performance.now();

  constructor(host: Host, flags: GivenFlags<typeof CP_FLAGS>, signal: AbortSignal) {
    this.#host = host;
    this.#flags = flags;
    this.#signal = signal;
    const isShown =
      (host.stderr as { readonly isTTY?: boolean }).isTTY === true && !flags.quiet && !flags.json;
    this.#progress = isShown ? new ProgressLine(host.stderr) : null;
  }

  /** `next` says how to continue an unfinished copy. */
  async run(copies: readonly Copy[], next: string): Promise<CommandResult> {
    const results: TransferResult[] = [];
    const progress = this.#progress;
    const options: TransferOptions = {
      signal: this.#signal,
      keepTimes: this.#flags.preserve === true,
      onError: (failed) => {
        if (this.#failed.length < REPORTED_PATHS) this.#failed.push(failed);
        this.#say(failed.reason);
      },
      ...(progress !== null && { onProgress: (state) => progress.show(state) }),
    };
    try {
      for (const { from, to } of copies) {
        const result = await transferBetween(from, to, options).catch(async (error: unknown) => {
          throw this.#signal.aborted ? error : await explained(error, to, next);
        });
        for (const { path, reason } of result.skipped) this.#say(`skipped ${path}: ${reason}`);
        results.push(result);
      }
    } finally {
      progress?.clear();
    }
    const isComplete = results.every(({ failed, skipped }) => failed + skipped.length === 0);
    const exitCode = isComplete ? 0 : PROGRAM_EXIT_CODES.failure.code;
    return { text: this.#flags.json ? `${JSON.stringify(this.#summary(results))}\n` : '', exitCode };
  }

  #say(message: string): void {
    if (this.#flags.json) return;
    this.#progress?.clear();
    this.#host.stderr.write(`exec-server cp: ${visible(withoutErrorNumber(message))}\n`);
  }

  #summary(results: readonly TransferResult[]) {
    const sum = (name: 'files' | 'directories' | 'links' | 'bytes' | 'resumedBytes') =>
      results.reduce((total, result) => total + result[name], 0);
    return {
      files: sum('files'),
      directories: sum('directories'),
      links: sum('links'),
      bytes: sum('bytes'),
      resumedBytes: sum('resumedBytes'),
      seconds: Math.round(performance.now() - this.#startedMs) / 1000,
      verified: results.every(({ verified }) => verified === 'sha256') ? 'sha256' : 'size',
      failed: this.#failed,
      skipped: results.flatMap(({ skipped }) => skipped).slice(0, REPORTED_PATHS),
    };
  }
}

/** Paths that the result names, in each of its lists. */
const REPORTED_PATHS = 1_000;

/** Where the copy of a source goes, by the rules of cp(1). */
function targetOf(from: FileEnd, to: FileEnd, sourceCount: number): FileEnd {
  const { text, path } = to.operand;
  if (to.kind === 'belowFile') {
    throw new RunError(
      `${quoteValue(text)} cannot be created, because a file has the name of a directory above it; choose another path`,
      { kind: 'notDirectory' },
    );
  }
  const endsInSlash = /\/$/.test(path);
  if (to.kind !== 'directory') {
    if (sourceCount > 1 && to.kind === null)
      throw new RunError(
        `${quoteValue(text)} does not exist, and several sources need a directory; create it first`,
        { kind: 'notFound' },
      );
    if (sourceCount > 1)
      throw new RunError(`${quoteValue(text)} is not a directory; several sources need one`);
    if (endsInSlash && (to.kind !== null || from.kind !== 'directory')) {
      throw new RunError(`${quoteValue(text)} is not a directory; create it, or leave out the slash`);
    }
    return to;
  }
  const name = lastName(from.operand.path);
  // The contents of `.` go into the directory itself.
  return name === null ? to : childOf(to, name);
}

function lastName(path: string): string | null {
  const name = path.replace(/\/+$/, '').split('/').pop()!;
  return ['', '.', '..', '~'].includes(name) ? null : name;
}

/** Whether something is there already is left to the transfer, which reports a file in the way of a directory. */
function childOf(directory: FileEnd, name: string): FileEnd {
  const uri = `${directory.uri.replace(/\/$/, '')}/${encodeURIComponent(name)}`;
  const path = directory.files === null ? `${String(directory.path).replace(/\/$/, '')}/${name}` : uri;
  return { ...directory, uri, path, kind: null };
}

function check(from: FileEnd, to: FileEnd, { recursive }: GivenFlags<typeof CP_FLAGS>): void {
  const source = quoteValue(from.operand.text);
  if (from.kind === null || from.kind === 'belowFile')
    throw new RunError(`${source} does not exist; check the path`, { kind: 'notFound' });
  if (from.kind === 'directory' && !recursive) {
    throw new RunError(`${source} is a directory; add -r to copy it`, { kind: 'isDirectory' });
  }
  if (from.kind === 'directory' && to.kind === 'file') {
    throw new RunError(`${quoteValue(to.operand.text)} is a file, and ${source} is a directory`);
  }
  if (from.machine !== to.machine) return;
  if (from.uri === to.uri)
    throw new RunError(`${source} and ${quoteValue(to.operand.text)} are the same file`);
  if (from.kind === 'directory' && to.uri.startsWith(`${from.uri.replace(/\/$/, '')}/`)) {
    throw new RunError(`${source} cannot be copied into itself; choose a destination outside it`);
  }
}

/** A copy would silently replace the one before it. */
function refuseSameTarget(copies: readonly Copy[]): void {
  const sources = new Map<string, string>();
  for (const { from, to } of copies) {
    const first = sources.get(to.uri);
    const second = quoteValue(from.operand.text);
    if (first !== undefined)
      throw new RunError(
        `${first} and ${second} have the same name in ${quoteValue(to.operand.text)}; copy them to different directories`,
        { kind: 'invalidInput' },
      );
    sources.set(to.uri, second);
  }
}

/** Says which parts of large files are left, and how to continue them. A full disk leaves none. */
async function explained(error: unknown, to: FileEnd, next: string): Promise<unknown> {
  if (!(error instanceof TransferError) || error.parts.length === 0) return error;
  const areLeft = await Promise.all(error.parts.map(({ path }) => isLeft(path, error, to)));
  const left = areLeft.some(Boolean)
    ? `${next} ${partsOf(error.parts.filter((_part, index) => areLeft[index]))}`
    : 'the incomplete copy was removed, so the same command starts from the beginning';
  return new RunError(`${messageWithoutHint(error)}; ${left}`, { kind: error.kind });
}

/** Whether a part is still there. One that cannot be looked for, because the connection is lost, counts as left. */
async function isLeft(part: string, error: TransferError, { files }: FileEnd): Promise<boolean> {
  if (failedWith(error, 'brokenPipe', 'disconnected', 'closed')) return true;
  try {
    if (files === null) await lstat(part);
    else await files.stat(toFileUri(part, null), { timeoutMs: PART_CHECK_TIMEOUT_MS });
    return true;
  } catch (failure) {
    return !failedWith(failure, 'notFound') && (failure as NodeJS.ErrnoException).code !== 'ENOENT';
  }
}

/** How long a server may take to say whether a part is there. */
const PART_CHECK_TIMEOUT_MS = 10_000;

function serverGone(error: unknown, next: string): RunError {
  return new RunError(
    `the private server has ended; files that were copied are complete; ${next}${left(error)}`,
    {
      kind: 'disconnected',
    },
  );
}

function interruption(error: unknown, signal: string, next: string): RunError {
  return new RunError(`interrupted; files that were copied are complete; ${next}${left(error)}`, {
    kind: 'aborted',
    exitCode: exitCodeOf(signal),
  });
}

/** The parts that a transfer has left. */
function left(error: unknown): string {
  return error instanceof TransferError && error.parts.length > 0 ? ` ${partsOf(error.parts)}` : '';
}

/** How to continue where the destination did not exist. A directory is there now, so the same command would copy into it. */
function continuation([source]: readonly FileEnd[]): string | null {
  if (source?.kind !== 'directory' || lastName(source.operand.path) === null) return null;
  const contents = `${source.operand.text.replace(/\/+$/, '')}/.`;
  return `run it with ${quoteValue(contents)} as the source to continue`;
}

function partsOf(parts: readonly UnfinishedPart[]): string {
  const first = visible(parts[0]!.path);
  return parts.length === 1 ? `with the part ${first}` : `with ${parts.length} parts, such as ${first}`;
}

function exitCodeOf(signal: string): number {
  return signal === 'SIGINT' ? 130 : signal === 'SIGTERM' ? 143 : 129;
}
