import type { FileSystem } from '../../../files/file-system.ts';
import type { SearchRequest } from '../../../files/search/query.ts';
import { INLINE_CONTENT_BYTES, READ_PIECE_BYTES } from '../limits.ts';
import { encodeEntries, encodeWalk } from '../wire/answers.ts';
import type { FileOperation, OpenedContent, ServedFiles } from '../wire/operations.ts';
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
export async function perform(
  scene: OperationScene,
  [name, ...args]: FileOperation,
): Promise<OperationResult> {
  const operation = OPERATIONS[name] as (
    scene: OperationScene,
    ...args: unknown[]
  ) => Promise<OperationResult>;
  return await operation(scene, ...args);
}

type Performers = {
  readonly [Name in FileOperation[0]]: (
    scene: OperationScene,
    ...args: Extract<FileOperation, readonly [Name, ...unknown[]]> extends readonly [Name, ...infer Rest]
      ? Rest
      : never
  ) => Promise<OperationResult>;
};

const OPERATIONS: Performers = {
  readFile: (scene, path, options) =>
    openContent(scene, () => scene.served.fileSystem.readFile(path, options)),
  readContent: async ({ held }, file, length) => {
    const buffer = Buffer.allocUnsafeSlow(Math.min(length, READ_PIECE_BYTES));
    return { content: buffer.subarray(0, await held.content(file).read(buffer)) };
  },
  writeFile: ({ served, content, signal, onWait }, path, options) =>
    done(served.fileSystem.writeFile(path, content, options, { signal: signal(), onWait })),
  createDirectory: ({ served }, ...args) => done(served.fileSystem.createDirectory(...args)),
  getMetadata: async ({ served }, ...args) => ({ head: await served.fileSystem.getMetadata(...args) }),
  canonicalize: async ({ served }, ...args) => ({ head: await served.fileSystem.canonicalize(...args) }),
  readDirectory: async ({ served }, ...args) => ({
    content: encodeEntries(await served.fileSystem.readDirectory(...args)),
  }),
  walk: async ({ served, signal }, path, options) => ({
    content: encodeWalk(await served.fileSystem.walk(path, options, signal())),
  }),
  remove: ({ served }, ...args) => done(served.fileSystem.remove(...args)),
  copy: ({ served }, ...args) => done(served.fileSystem.copy(...args)),
  rename: ({ served }, ...args) => done(served.fileSystem.rename(...args)),
  open: async ({ served, held }, ...args) => ({
    head: (await held.keep(() => served.fileSystem.open(...args))).file,
  }),
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

async function done(work: Promise<void>): Promise<OperationResult> {
  await work;
  return {};
}

/** Reads how the file begins. One that has been read to its end is closed at once: how that ends is nobody's concern. */
async function openContent(
  { held }: OperationScene,
  open: () => ReturnType<FileSystem['readFile']>,
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
