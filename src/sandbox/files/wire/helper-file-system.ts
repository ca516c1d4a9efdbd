import { unlessAborted } from '../../../base/abort.ts';
import type {
  DirectoryEntry,
  FileContent,
  FileMetadata,
  FileSystem,
  LinkOption,
  OpenFile,
  OpenMode,
  Waiting,
  WalkOptions,
  WalkResult,
} from '../../../files/file-system.ts';
import type { NativePath } from '../../../files/native-path.ts';
import type { SearchRequest, SearchResult } from '../../../files/search/query.ts';
import { INLINE_CONTENT_BYTES, READ_PIECE_BYTES } from '../limits.ts';
import { decodeEntries, decodeWalk } from './answers.ts';
import type { HelperChannel } from './helper-channel.ts';
import type { OpenedContent, ServedFiles } from './operations.ts';

/** The files that a helper sees. Open files stay open in the helper until they are closed or it ends. */
export class HelperFileSystem implements FileSystem, ServedFiles {
  readonly #channel: HelperChannel;

  constructor(channel: HelperChannel) {
    this.#channel = channel;
  }

  get fileSystem(): FileSystem {
    return this;
  }

  async readFile(path: NativePath, options: LinkOption): Promise<FileContent> {
    const { head, content } = await this.#channel.request(['readFile', path, options], {
      expected: INLINE_CONTENT_BYTES,
    });
    return new HelperContent(this.#channel, head as OpenedContent, content);
  }

  async writeFile(path: NativePath, bytes: Uint8Array, options: LinkOption, waiting: Waiting): Promise<void> {
    await this.#channel.request(['writeFile', path, options], {
      content: bytes,
      signal: waiting.signal,
      onWait: () => waiting.onWait(),
    });
  }

  async createDirectory(
    path: NativePath,
    options: LinkOption & { readonly recursive: boolean },
  ): Promise<void> {
    await this.#channel.request(['createDirectory', path, options]);
  }

  async getMetadata(path: NativePath, options: LinkOption): Promise<FileMetadata> {
    return (await this.#channel.request(['getMetadata', path, options])).head as FileMetadata;
  }

  async canonicalize(path: NativePath): Promise<NativePath> {
    return (await this.#channel.request(['canonicalize', path])).head as NativePath;
  }

  async readDirectory(path: NativePath, options: LinkOption = FOLLOWED): Promise<DirectoryEntry[]> {
    return decodeEntries((await this.#channel.request(['readDirectory', path, options])).content);
  }

  async walk(
    path: NativePath,
    options: WalkOptions & Partial<LinkOption>,
    signal: AbortSignal,
  ): Promise<WalkResult> {
    const walk = this.#channel.request(['walk', path, options], { signal });
    return decodeWalk((await unlessAborted(walk, signal)).content);
  }

  async remove(
    path: NativePath,
    options: LinkOption & { readonly recursive: boolean; readonly force: boolean },
  ): Promise<void> {
    await this.#channel.request(['remove', path, options]);
  }

  async copy(
    source: NativePath,
    destination: NativePath,
    options: { readonly recursive: boolean },
  ): Promise<void> {
    await this.#channel.request(['copy', source, destination, options]);
  }

  async rename(source: NativePath, destination: NativePath): Promise<void> {
    await this.#channel.request(['rename', source, destination]);
  }

  async open(path: NativePath, mode: OpenMode, options: LinkOption = FOLLOWED): Promise<OpenFile> {
    const { head } = await this.#channel.request(['open', path, mode, options]);
    return new HelperFile(this.#channel, head as number);
  }

  async search(request: SearchRequest, signal: AbortSignal): Promise<SearchResult> {
    const content = Buffer.from(JSON.stringify(request));
    const search = this.#channel.request(['search'], { content, signal });
    return JSON.parse((await unlessAborted(search, signal)).content.toString()) as SearchResult;
  }
}

/** A file that is read as a whole. Its beginning came with the answer that it is open, which is all of it for most files. */
class HelperContent implements FileContent {
  readonly size: number;
  readonly #channel: HelperChannel;
  /** Null when the helper has read it to its end and closed it. */
  readonly #file: number | null;
  /** What has come and was not taken yet. */
  #ready: Buffer;
  /** What is under way; it never rejects. */
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
  readonly #channel: HelperChannel;
  readonly #file: number;

  constructor(channel: HelperChannel, file: number) {
    this.#channel = channel;
    this.#file = file;
  }

  async read(position: number, length: number, into?: Buffer): Promise<Buffer> {
    const place = into === undefined ? { expected: length } : { into: into.subarray(0, length) };
    return (await this.#channel.request(['read', this.#file, position, length], place)).content;
  }

  async write(position: number, bytes: Uint8Array): Promise<void> {
    await this.#channel.request(['write', this.#file, position], { content: bytes });
  }

  async close(): Promise<void> {
    await this.#channel.request(['close', this.#file]);
  }

  /** A helper that has ended holds nothing any more. */
  async discard(): Promise<void> {
    if (this.#channel.failure === null) await this.#channel.request(['discard', this.#file]);
  }
}

const FOLLOWED: LinkOption = { followSymlinks: true };
