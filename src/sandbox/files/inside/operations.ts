import {
  type DirectoryEntry,
  FILE_OPERATIONS,
  type FileContent,
  type FileOperationName,
  type OpenFile,
  type PathListing,
  type Waiting,
  type WalkResult,
} from '../../../files/file-system.ts';
import { callOperation } from '../../../files/file-system-wrappers.ts';
import type { SearchRequest } from '../../../files/search/query.ts';
import { INLINE_CONTENT_BYTES, READ_PIECE_BYTES } from '../limits.ts';
import { encodeEntries, encodeListing, encodeWalk } from '../wire/answers.ts';
import type {
  FileOperation,
  HandleOperation,
  OpenedContent,
  OpenedFile,
  ServedFiles,
} from '../wire/operations.ts';
import type { OpenFileTable } from './open-file-table.ts';

/** The input of an operation besides its head. */
export interface OperationContext {
  readonly served: ServedFiles;
  readonly openFiles: OpenFileTable;
  readonly pieces: PieceBuffers;
  readonly content: Buffer;
  /** Aborted when the client cancels the operation. */
  signal(): AbortSignal;
  /** Reports that the operation waits for another process, such as the reader of a FIFO. */
  onWait(): void;
}

/** The answer to an operation. Most have neither part. */
export interface OperationResult {
  readonly head?: unknown;
  readonly content?: Uint8Array;
  /** Called when the content is sent and its bytes are no longer needed. */
  readonly sent?: () => void;
}

/** Reuses a buffer for the pieces of files: each new megabyte would stay in memory until the next garbage collection. */
export class PieceBuffers {
  #free: Buffer | null = null;

  take(): Buffer {
    const buffer = this.#free ?? Buffer.allocUnsafeSlow(READ_PIECE_BYTES);
    this.#free = null;
    return buffer;
  }

  give(buffer: Buffer): void {
    this.#free = buffer;
  }
}

/** Performs the operation that the head of a request names. */
export async function perform(context: OperationContext, operation: FileOperation): Promise<OperationResult> {
  if (isFileSystemOperation(operation)) return await performOnFiles(context, operation);
  const [name, ...args] = operation;
  const handle = HANDLE_OPERATIONS[name] as (
    context: OperationContext,
    ...args: unknown[]
  ) => Promise<OperationResult>;
  return await handle(context, ...args);
}

type FileSystemOperation = readonly [name: FileOperationName, ...json: unknown[]];

function isFileSystemOperation(operation: FileOperation): operation is FileSystemOperation {
  return Object.hasOwn(FILE_OPERATIONS, operation[0]);
}

function performOnFiles(
  context: OperationContext,
  [name, ...json]: FileSystemOperation,
): Promise<OperationResult> {
  const { arguments: kinds, result } = FILE_OPERATIONS[name];
  let next = 0;
  const args = kinds.map((kind) => (kind === 'json' ? json[next++] : ARGUMENTS[kind](context)));
  return RESULTS[result](context, () => callOperation(context.served.fileSystem, name, args));
}

const ARGUMENTS = {
  bytes: ({ content }: OperationContext) => content,
  signal: ({ signal }: OperationContext) => signal(),
  waiting: ({ signal, onWait }: OperationContext): Waiting => ({ signal: signal(), onWait }),
};

/** Runs an operation and encodes its result, by the kind of the result. */
const RESULTS: Readonly<
  Record<
    (typeof FILE_OPERATIONS)[FileOperationName]['result'],
    (context: OperationContext, run: () => Promise<unknown>) => Promise<OperationResult>
  >
> = {
  none: (_, run) => done(run()),
  json: async (_, run) => ({ head: await run() }),
  content: (context, run) => openContent(context, run as () => Promise<FileContent>),
  file: async ({ openFiles }, run) => {
    const { file, opened } = await openFiles.add(run as () => Promise<OpenFile>);
    const head: OpenedFile = { file, part: opened.part };
    return { head };
  },
  entries: async (_, run) => ({ content: encodeEntries((await run()) as DirectoryEntry[]) }),
  walk: async (_, run) => ({ content: encodeWalk((await run()) as WalkResult) }),
  listing: async (_, run) => ({ content: encodeListing((await run()) as PathListing) }),
};

type HandleOperations = {
  readonly [Name in HandleOperation[0]]: (
    context: OperationContext,
    ...args: Extract<HandleOperation, readonly [Name, ...unknown[]]> extends readonly [Name, ...infer Rest]
      ? Rest
      : never
  ) => Promise<OperationResult>;
};

const HANDLE_OPERATIONS: HandleOperations = {
  readContent: async ({ openFiles, pieces }, file, length) => {
    const buffer = pieces.take();
    const read = await openFiles.content(file).read(buffer.subarray(0, length));
    return { content: buffer.subarray(0, read), sent: () => pieces.give(buffer) };
  },
  read: async ({ openFiles }, file, position, length) => ({
    content: await openFiles.file(file).read(position, Math.min(length, READ_PIECE_BYTES)),
  }),
  write: ({ openFiles, content }, file, position) => done(openFiles.file(file).write(position, content)),
  close: ({ openFiles }, file) => done(openFiles.close(file)),
  discard: ({ openFiles }, file) => done(openFiles.discard(file)),
  search: async ({ served, content, signal }, session) => {
    const request = JSON.parse(content.toString()) as SearchRequest;
    return { content: Buffer.from(JSON.stringify(await served.search(request, signal(), session))) };
  },
};

async function done(work: Promise<unknown>): Promise<OperationResult> {
  await work;
  return {};
}

/** Reads the beginning of the file. A file that was read to its end is closed immediately; an error of that close is ignored. */
async function openContent(
  { openFiles }: OperationContext,
  open: () => Promise<FileContent>,
): Promise<OperationResult> {
  const { file, opened } = await openFiles.add(open);
  let mayHaveMore = false;
  try {
    const beginning = Buffer.allocUnsafe(Math.min(opened.size + 1, INLINE_CONTENT_BYTES));
    const length = await opened.read(beginning);
    mayHaveMore = length === beginning.length;
    const head: OpenedContent = { size: opened.size, file: mayHaveMore ? file : null };
    return { head, content: beginning.subarray(0, length) };
  } finally {
    if (!mayHaveMore) openFiles.close(file).catch(() => {});
  }
}
