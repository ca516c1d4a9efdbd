import {
  type DirectoryEntry,
  FILE_OPERATIONS,
  type FileContent,
  type FileOperationName,
  type OpenFile,
  type Waiting,
  type WalkResult,
} from '../../../files/file-system.ts';
import { callOperation } from '../../../files/file-system-wrappers.ts';
import type { SearchRequest } from '../../../files/search/query.ts';
import { INLINE_CONTENT_BYTES, READ_PIECE_BYTES } from '../limits.ts';
import { encodeEntries, encodeWalk } from '../wire/answers.ts';
import type { FileOperation, HandleOperation, OpenedContent, ServedFiles } from '../wire/operations.ts';
import type { HeldFiles } from './held-files.ts';

/** What an operation has to do with besides its head. */
export interface OperationScene {
  readonly served: ServedFiles;
  readonly held: HeldFiles;
  readonly content: Buffer;
  /** Aborted when the result is no longer wanted. */
  signal(): AbortSignal;
  /** Tells that the operation waits for somebody outside. */
  onWait(): void;
}

/** The answer to an operation; most have neither part. */
export interface OperationResult {
  readonly head?: unknown;
  readonly content?: Uint8Array;
}

/** Does what the head of a request says. */
export async function perform(scene: OperationScene, operation: FileOperation): Promise<OperationResult> {
  if (isFileSystemOperation(operation)) return await performOnFiles(scene, operation);
  const [name, ...args] = operation;
  const handle = HANDLE_OPERATIONS[name] as (
    scene: OperationScene,
    ...args: unknown[]
  ) => Promise<OperationResult>;
  return await handle(scene, ...args);
}

type FileSystemOperation = readonly [name: FileOperationName, ...json: unknown[]];

function isFileSystemOperation(operation: FileOperation): operation is FileSystemOperation {
  return Object.hasOwn(FILE_OPERATIONS, operation[0]);
}

function performOnFiles(
  scene: OperationScene,
  [name, ...json]: FileSystemOperation,
): Promise<OperationResult> {
  const { arguments: kinds, result } = FILE_OPERATIONS[name];
  let next = 0;
  const args = kinds.map((kind) => (kind === 'json' ? json[next++] : ARGUMENTS[kind](scene)));
  return RESULTS[result](scene, () => callOperation(scene.served.fileSystem, name, args));
}

const ARGUMENTS = {
  bytes: ({ content }: OperationScene) => content,
  signal: ({ signal }: OperationScene) => signal(),
  waiting: ({ signal, onWait }: OperationScene): Waiting => ({ signal: signal(), onWait }),
};

/** Runs an operation and encodes its result, by the kind of the result. */
const RESULTS: Readonly<
  Record<
    (typeof FILE_OPERATIONS)[FileOperationName]['result'],
    (scene: OperationScene, run: () => Promise<unknown>) => Promise<OperationResult>
  >
> = {
  none: (_, run) => done(run()),
  json: async (_, run) => ({ head: await run() }),
  content: (scene, run) => openContent(scene, run as () => Promise<FileContent>),
  file: async ({ held }, run) => ({ head: (await held.keep(run as () => Promise<OpenFile>)).file }),
  entries: async (_, run) => ({ content: encodeEntries((await run()) as DirectoryEntry[]) }),
  walk: async (_, run) => ({ content: encodeWalk((await run()) as WalkResult) }),
};

type HandleOperations = {
  readonly [Name in HandleOperation[0]]: (
    scene: OperationScene,
    ...args: Extract<HandleOperation, readonly [Name, ...unknown[]]> extends readonly [Name, ...infer Rest]
      ? Rest
      : never
  ) => Promise<OperationResult>;
};

const HANDLE_OPERATIONS: HandleOperations = {
  readContent: async ({ held }, file, length) => {
    const buffer = Buffer.allocUnsafeSlow(Math.min(length, READ_PIECE_BYTES));
    return { content: buffer.subarray(0, await held.content(file).read(buffer)) };
  },
  read: async ({ held }, file, position, length) => ({
    content: await held.file(file).read(position, Math.min(length, READ_PIECE_BYTES)),
  }),
  write: ({ held, content }, file, position) => done(held.file(file).write(position, content)),
  close: ({ held }, file) => done(held.close(file)),
  discard: ({ held }, file) => done(held.discard(file)),
  search: async ({ served, content, signal }) => {
    const request = JSON.parse(content.toString()) as SearchRequest;
    return { content: Buffer.from(JSON.stringify(await served.search(request, signal()))) };
  },
};

async function done(work: Promise<unknown>): Promise<OperationResult> {
  await work;
  return {};
}

/** Reads how the file begins. One that has been read to its end is closed at once: how that ends is nobody's concern. */
async function openContent(
  { held }: OperationScene,
  open: () => Promise<FileContent>,
): Promise<OperationResult> {
  const { file, opened } = await held.keep(open);
  let mayHaveMore = false;
  try {
    const beginning = Buffer.allocUnsafe(Math.min(opened.size + 1, INLINE_CONTENT_BYTES));
    const length = await opened.read(beginning);
    mayHaveMore = length === beginning.length;
    const head: OpenedContent = { size: opened.size, file: mayHaveMore ? file : null };
    return { head, content: beginning.subarray(0, length) };
  } finally {
    if (!mayHaveMore) held.close(file).catch(() => {});
  }
}
