import { unlessAborted } from '../../../base/abort.ts';
import type { Owner } from '../../../base/fair-shares.ts';
import {
  FILE_OPERATIONS,
  type FileContent,
  type FileOperationName,
  type FileSystem,
  type OpenFile,
  type Waiting,
} from '../../../files/file-system.ts';
import { buildFileSystem } from '../../../files/file-system-wrappers.ts';
import type { SearchRequest, SearchResult } from '../../../files/search/query.ts';
import { INLINE_CONTENT_BYTES, READ_PIECE_BYTES } from '../limits.ts';
import { decodeEntries, decodeListing, decodeWalk } from './answers.ts';
import type { Answer, HelperChannel, RequestOptions } from './helper-channel.ts';
import type { OpenedContent, OpenedFile } from './operations.ts';

/** The files of a helper. Open files stay open in the helper until they are closed or the helper exits. */
export class HelperFileSystem {
  readonly fileSystem: FileSystem;
  readonly #channel: HelperChannel;
  /** The numbers by which the helper knows the owners of searches. */
  readonly #sessions = new WeakMap<Owner, number>();
  #lastSession = 0;

  constructor(channel: HelperChannel) {
    this.#channel = channel;
    this.fileSystem = buildFileSystem((name) => async (...args) => {
      const answer = await request(channel, name, args);
      return RESULTS[FILE_OPERATIONS[name].result](answer, channel);
    });
  }

  /** The search counts for the owner, who has a fair share of the concurrent searches of the helper. */
  async search(request: SearchRequest, signal: AbortSignal, owner: Owner): Promise<SearchResult> {
    const content = Buffer.from(JSON.stringify(request));
    const session = this.#sessions.get(owner) ?? ++this.#lastSession;
    this.#sessions.set(owner, session);
    const search = this.#channel.request(['search', session], { content, signal });
    return JSON.parse((await unlessAborted(search, signal)).content.toString()) as SearchResult;
  }
}

/** Sends an operation. The kind of each argument determines its encoding. */
async function request(
  channel: HelperChannel,
  name: FileOperationName,
  args: readonly unknown[],
): Promise<Answer> {
  const { arguments: kinds, result } = FILE_OPERATIONS[name];
  const json: unknown[] = [];
  let options: RequestOptions = result === 'content' ? { expected: INLINE_CONTENT_BYTES } : {};
  let abandonedBy: AbortSignal | null = null;
  for (const [index, kind] of kinds.entries()) {
    const argument = args[index];
    switch (kind) {
      case 'json':
        // Omits absent options, which would become null in JSON.
        if (argument !== undefined) json.push(argument);
        break;
      case 'bytes':
        options = { ...options, content: argument as Uint8Array };
        break;
      case 'signal':
        abandonedBy = argument as AbortSignal;
        options = { ...options, signal: abandonedBy };
        break;
      case 'waiting': {
        const waiting = argument as Waiting;
        options = { ...options, signal: waiting.signal, onWait: () => waiting.onWait() };
      }
    }
  }
  const answer = channel.request([name, ...json], options);
  return await (abandonedBy === null ? answer : unlessAborted(answer, abandonedBy));
}

/** Decodes an answer by the kind of the result. */
const RESULTS: Readonly<Record<ResultKind, (answer: Answer, channel: HelperChannel) => unknown>> = {
  none: () => undefined,
  json: ({ head }) => head,
  content: ({ head, content }, channel) => new HelperContent(channel, head as OpenedContent, content),
  file: ({ head }, channel) => new HelperFile(channel, head as OpenedFile),
  entries: ({ content }) => decodeEntries(content),
  walk: ({ content }) => decodeWalk(content),
  listing: ({ content }) => decodeListing(content),
};

type ResultKind = (typeof FILE_OPERATIONS)[FileOperationName]['result'];

/** A file that is read from start to end. Its beginning came with the answer to opening it; for most files that is everything. */
class HelperContent implements FileContent {
  readonly size: number;
  readonly #channel: HelperChannel;
  /** Null when the helper has read the file to its end and closed it. */
  readonly #file: number | null;
  /** Bytes that were received and not read yet. */
  #ready: Buffer;
  /** The operation in progress. Never rejects. */
  #reading: Promise<unknown> = Promise.resolve();

  constructor(channel: HelperChannel, { size, file }: OpenedContent, beginning: Buffer) {
    this.#channel = channel;
    this.size = size;
    this.#file = file;
    this.#ready = beginning;
  }

  read(buffer: Buffer): Promise<number> {
    const reading = this.#fill(buffer);
    this.#reading = reading.catch(() => {});
    return reading;
  }

  async close(): Promise<void> {
    await this.#reading;
    if (this.#file !== null) await this.#channel.request(['close', this.#file]);
  }

  async #fill(buffer: Buffer): Promise<number> {
    let filled = this.#ready.copy(buffer);
    this.#ready = this.#ready.subarray(filled);
    while (filled < buffer.length && this.#file !== null) {
      const into = buffer.subarray(filled, filled + READ_PIECE_BYTES);
      const { content } = await this.#channel.request(['readContent', this.#file, into.length], { into });
      filled += content.length;
      if (content.length < into.length) break;
    }
    return filled;
  }
}

/** A file that is open in the helper. */
class HelperFile implements OpenFile {
  readonly part: OpenFile['part'];
  readonly #channel: HelperChannel;
  readonly #file: number;

  constructor(channel: HelperChannel, { file, part }: OpenedFile) {
    this.#channel = channel;
    this.#file = file;
    this.part = part;
  }

  async read(position: number, length: number, into?: Buffer): Promise<Buffer> {
    const options = into === undefined ? { expected: length } : { into: into.subarray(0, length) };
    return (await this.#channel.request(['read', this.#file, position, length], options)).content;
  }

  async write(position: number, bytes: Uint8Array): Promise<void> {
    await this.#channel.request(['write', this.#file, position], { content: bytes });
  }

  async close(): Promise<void> {
    await this.#channel.request(['close', this.#file]);
  }

  /** Succeeds if the helper has exited, because then the file is closed. */
  async discard(): Promise<void> {
    if (this.#channel.failure === null) await this.#channel.request(['discard', this.#file]);
  }
}
