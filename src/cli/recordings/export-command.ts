import { open, rm } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { CastEvent, CastHeader } from '../../recording/asciicast.ts';
import type { CommandResult, Host } from '../commands.ts';
import { cannotWrite, isReaderGone, RunError, UsageError } from '../failures.ts';
import { cannotWriteFile } from '../file-failures.ts';
import { parseFlags } from '../flags.ts';
import { EXPORT_FLAGS } from '../specs/recording-specs.ts';
import { type OpenedRecording, readCast, withRecording } from './open-recording.ts';

/** Prints a recording in one of several formats. */
export async function exportCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('export', argv, EXPORT_FLAGS, 'files');
  const { v2, txt, output } = flags;
  if (v2 && txt) throw new UsageError('--v2 and --txt exclude each other', 'export');
  const convert = v2 ? asV2 : txt ? asText : asIs;
  return withRecording('export', positionals, flags, host, async (recording) => {
    // The recording is found before a file is created.
    const text = await convert(recording, (problem) => host.stderr.write(problem));
    return output === undefined || output === '-' ? print(text, host.stdout) : save(text, output);
  });
}

type Chunks = AsyncIterable<string | Uint8Array>;
type Report = (problem: string) => void;

async function print(text: Chunks, stdout: Writable): Promise<CommandResult> {
  try {
    await pipeline(text, stdout, { end: false });
  } catch (error) {
    const failure = error as NodeJS.ErrnoException;
    if (isReaderGone(failure)) return { text: '', exitCode: READER_GONE };
    throw failure.syscall === 'write' ? cannotWrite('stdout', failure) : failure;
  }
  return { text: '', exitCode: 0 };
}

/** As after SIGPIPE. */
const READER_GONE = 141;

/** Writes a new file. A failure leaves none, so that the command can be repeated. */
async function save(text: Chunks, path: string): Promise<CommandResult> {
  const file = await open(path, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST')
      throw new RunError(`${path} exists; choose another file`, { kind: 'exists' });
    throw cannotWriteFile(path, error);
  });
  await pipeline(text, file.createWriteStream()).catch(async (error: NodeJS.ErrnoException) => {
    await rm(path, { force: true });
    throw error.syscall === undefined ? error : cannotWriteFile(path, error);
  });
  return { text: '', exitCode: 0 };
}

async function asIs({ bytes }: OpenedRecording): Promise<Chunks> {
  return bytes;
}

async function asV2(recording: OpenedRecording, report: Report): Promise<Chunks> {
  const { header, events } = await readCast(recording, report);
  return v2Lines(header, events);
}

async function* v2Lines(header: CastHeader, events: AsyncIterable<CastEvent>): AsyncGenerator<string> {
  const { term, exec_server: _, env, ...rest } = header;
  const { cols: width, rows: height, type: TERM } = term;
  const withTerm = { ...env, ...(TERM !== undefined && { TERM }) };
  yield `${JSON.stringify({ ...rest, version: 2, width, height, env: withTerm })}\n`;
  for await (const { atUs, code, text } of events) {
    // v2 has no event for the exit status.
    if (code !== 'x') yield `${JSON.stringify([atUs / 1e6, code, text])}\n`;
  }
}

async function asText(recording: OpenedRecording, report: Report): Promise<Chunks> {
  const { header, events } = await readCast(recording, report);
  const { screenText } = await import('./screen-text.ts');
  return screenText(header.term, events);
}
