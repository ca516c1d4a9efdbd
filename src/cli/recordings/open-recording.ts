import { createReadStream, existsSync } from 'node:fs';
import { LineSplitter } from '../../base/line-splitter.ts';
import type { ExecServerClient } from '../../client/client.ts';
import type { RecordingInfo } from '../../client/recordings.ts';
import { type CastEvent, type CastHeader, CastReader } from '../../recording/asciicast.ts';
import { INCOMPLETE_MARKER } from '../../recording/recording-file.ts';
import { quoteValue } from '../../server/config/values.ts';
import type { Host } from '../commands.ts';
import { withClient } from '../environments/with-client.ts';
import { RunError, UsageError } from '../failures.ts';
import { cannotReadFile } from '../file-failures.ts';
import { visible } from '../terminal-text.ts';

interface Flags {
  readonly environment?: string;
  readonly 'token-file'?: string;
}

/** Where the bytes of a recording come from. */
export interface OpenedRecording {
  /** What to call it in messages. */
  readonly name: string;
  readonly bytes: AsyncIterable<Uint8Array>;
}

/** Opens the recording that an operand names: a file here, or one of a server. Closes the connection when `use` has ended. */
export async function withRecording<Result>(
  command: string,
  operands: readonly string[],
  flags: Flags,
  host: Host,
  use: (recording: OpenedRecording) => Promise<Result>,
): Promise<Result> {
  const [operand, unexpected] = operands;
  if (operand === undefined) {
    throw new UsageError("name a file or a recording; 'exec-server recordings' lists them", command);
  }
  if (unexpected !== undefined) {
    throw new UsageError(`unexpected argument ${quoteValue(unexpected)}; name one recording`, command);
  }
  if (flags.environment === undefined && existsSync(operand)) {
    return use({ name: operand, bytes: fileBytes(operand) });
  }
  if (operand.includes('/'))
    throw new RunError(`there is no file ${operand}; write its path`, { kind: 'notFound' });
  return withClient(
    flags,
    host,
    { clientName: `exec-server ${command}`, whileDraining: true },
    async ({ client }) => {
      const { recordingId } = await findRecording(client, operand);
      return use({ name: operand, bytes: client.recordings.read(recordingId) });
    },
  );
}

/** Opens a recording to read its events. Rejects with RunError when it is none. Reports at its end what is missing. */
export async function readCast(
  { name, bytes }: OpenedRecording,
  report: (problem: string) => void,
): Promise<{
  readonly header: CastHeader;
  readonly events: AsyncGenerator<CastEvent, void, undefined>;
}> {
  const reader = new CastReader();
  const events = checkedToEnd(castEvents(reader, bytes, name), reader, report);
  // Runs up to the header.
  const first = await events.next();
  if (reader.header === null)
    throw new RunError(`${name} is empty; name a recording`, { kind: 'invalidInput' });
  const { header } = reader;
  return { header, events: first.done ? events : prepended(first.value, events) };
}

/** The events of a recording. The last line may be incomplete when its server was killed; it is left out. */
async function* castEvents(
  reader: CastReader,
  bytes: AsyncIterable<Uint8Array>,
  name: string,
): AsyncGenerator<CastEvent, void, undefined> {
  const lines = new LineSplitter(MAX_LINE_BYTES);
  let number = 0;
  try {
    for await (const chunk of bytes) {
      for (const line of lines.push(chunk)) {
        number++;
        const event = reader.line(line.toString());
        if (event !== null) yield event;
      }
    }
  } catch (error) {
    const { code, name: kind } = error as NodeJS.ErrnoException;
    if (code !== undefined || kind === 'ClientError' || error instanceof RunError) throw error;
    throw new RunError(`line ${number} of ${name} is wrong: ${(error as Error).message}; name a recording`, {
      kind: 'invalidInput',
    });
  }
}

async function* checkedToEnd(
  events: AsyncIterable<CastEvent>,
  reader: CastReader,
  report: (problem: string) => void,
): AsyncGenerator<CastEvent, void, undefined> {
  let hasEnd = false;
  for await (const event of events) {
    if (event.code === 'x') hasEnd = true;
    if (event.code === 'm' && event.text.startsWith(INCOMPLETE_MARKER)) {
      report(`the recording is incomplete: ${visible(event.text.slice(INCOMPLETE_MARKER.length))}\n`);
    }
    yield event;
  }
  // v2 has no event for the exit status.
  if (hasEnd || reader.header === null || reader.version === 2) return;
  report(
    'the recording is incomplete: it has no exit status; the program still runs, or its server was killed\n',
  );
}

async function* prepended(
  first: CastEvent,
  rest: AsyncGenerator<CastEvent, void, undefined>,
): AsyncGenerator<CastEvent, void, undefined> {
  yield first;
  yield* rest;
}

/** The longest line of a recording. A chunk of output has at most some hundred kilobytes. */
const MAX_LINE_BYTES = 64 * 1024 * 1024;

async function* fileBytes(path: string): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    yield* createReadStream(path);
  } catch (error) {
    throw cannotReadFile(path, error);
  }
}

/** By the reference, else by the name: the latest; else by its id. */
async function findRecording(client: ExecServerClient, operand: string): Promise<RecordingInfo> {
  const matches = (all: readonly RecordingInfo[]) =>
    all.findLast(({ ref, recordingId }) => ref === operand || recordingId === operand) ??
    all.findLast(({ name }) => name === operand);
  const found = matches(await client.recordings.list()) ?? matches(await observed(client));
  if (found !== undefined) return found;
  throw new RunError(
    `there is no file ${quoteValue(operand)}, and no recording of a program with this reference or name; 'exec-server recordings' lists them`,
    { kind: 'notFound' },
  );
}

/** The recordings of all owners; none when the token does not allow to observe them. */
async function observed(client: ExecServerClient): Promise<readonly RecordingInfo[]> {
  return client.recordings.list({ scope: 'server' }).catch((error) => {
    if (error.kind === 'permissionDenied') return [];
    throw error;
  });
}
