import { randomHex } from '../../base/random-hex.ts';
import type { Capability } from '../../protocol/environment.ts';
import type { CallParamsOf, Method, ResultOf } from '../../protocol/registry.ts';
import type { SandboxRequest } from '../../protocol/sandbox.ts';
import type {
  CallOptions,
  DirectoryEntry,
  ExecutorFileSystem,
  FileMetadata,
  FileOptions,
  FileWatch,
  HashOutcome,
  SearchOptions,
  SearchResult,
  SymlinkOptions,
  WalkOptions,
  WalkResult,
  WatchOptions,
} from '../backend.ts';
import { bytesParam, receivedBytes } from '../connection/bytes.ts';
import { asFileError } from '../connection/call-errors.ts';
import { CallLimit } from '../connection/call-limit.ts';
import { ClientError } from '../errors.ts';
import { FILE_BLOCK_BYTES, FILE_BLOCKS_IN_FLIGHT } from '../limits.ts';
import { blocksOf, bytesOf, textOf } from './file-content.ts';
import { type WatchClient, watchRemotely } from './remote-file-watch.ts';
import { trimSandbox } from './sandbox-context.ts';

/** The part of a client that a remote file system needs. */
export interface FileSystemClient extends WatchClient {
  readonly capabilities: Readonly<Partial<Record<Capability, boolean>>>;
  /** Whether a base64 parameter may be a Uint8Array. Default: false. */
  readonly carriesBytes?: boolean;
}

/** The files of a server, through its `fs/*` methods. */
export class RemoteFileSystem implements ExecutorFileSystem {
  readonly #client: FileSystemClient;
  /**
   * Pending metadata requests, by path. Concurrent requests for the same path share one; nothing is cached beyond
   * that.
   */
  readonly #metadata = new Map<string, Promise<FileMetadata>>();

  constructor(client: FileSystemClient) {
    this.#client = client;
  }

  async canonicalize(path: string, options: FileOptions = {}): Promise<string> {
    return (await this.#call('fs/canonicalize', { path }, options)).path;
  }

  async readFile(path: string, options: SymlinkOptions = {}): Promise<Uint8Array> {
    const { dataBase64 } = await this.#call('fs/readFile', { path, ...linkParam(options) }, options);
    return decoded(dataBase64, path);
  }

  async readFileText(path: string, options: SymlinkOptions = {}): Promise<string> {
    return textOf(await this.readFile(path, options), path);
  }

  async *readFileStream(path: string, options: FileOptions = {}): AsyncGenerator<Uint8Array, void> {
    const file = await this.#open(path, 'read', options);
    const reads: ReturnType<RemoteFile['read']>[] = [];
    try {
      // A small file takes one request. The client reads ahead in a large one, because each request takes a round trip.
      for (let offset = 0, ahead = 1; ; ahead = Math.min(2 * ahead, FILE_BLOCKS_IN_FLIGHT)) {
        for (; reads.length < ahead; offset += FILE_BLOCK_BYTES) reads.push(handled(file.read(offset)));
        const { bytes, eof } = await reads.shift()!;
        if (bytes.length > 0) yield bytes;
        if (eof) return;
      }
    } finally {
      void file.abandon();
    }
  }

  async writeFile(path: string, bytes: Uint8Array | string, options: SymlinkOptions = {}): Promise<void> {
    const dataBase64 = bytesParam(bytesOf(bytes), this.#client);
    await this.#change('fs/writeFile', { path, dataBase64, ...linkParam(options) }, options);
  }

  async createDirectory(
    path: string,
    options: SymlinkOptions & { readonly recursive?: boolean } = {},
  ): Promise<void> {
    const { recursive } = options;
    await this.#change('fs/createDirectory', { path, recursive, ...linkParam(options) }, options);
  }

  async getMetadata(path: string, options: SymlinkOptions = {}): Promise<FileMetadata> {
    const request = () => this.#call('fs/getMetadata', { path, ...linkParam(options) }, options);
    // Only requests without a signal, timeout, sandbox or link option can be shared.
    const { signal, timeoutMs, followSymlinks, sandbox } = options;
    if (signal || timeoutMs !== undefined || followSymlinks === false || sandbox != null) return request();
    let answer = this.#metadata.get(path);
    if (answer === undefined) {
      answer = request().finally(() => {
        if (this.#metadata.get(path) === answer) this.#metadata.delete(path);
      });
      this.#metadata.set(path, answer);
    }
    return answer;
  }

  async readDirectory(path: string, options: FileOptions = {}): Promise<readonly DirectoryEntry[]> {
    return (await this.#call('fs/readDirectory', { path }, options)).entries;
  }

  async walk(path: string, walk: WalkOptions, options: FileOptions = {}): Promise<WalkResult> {
    return this.#call('fs/walk', { path, options: walk }, options);
  }

  async remove(
    path: string,
    options: SymlinkOptions & { readonly recursive?: boolean; readonly force?: boolean } = {},
  ): Promise<void> {
    const { recursive, force } = options;
    await this.#change('fs/remove', { path, recursive, force, ...linkParam(options) }, options);
  }

  async copy(
    source: string,
    destination: string,
    options: FileOptions & { readonly recursive: boolean },
  ): Promise<void> {
    const { recursive } = options;
    await this.#change('fs/copy', { sourcePath: source, destinationPath: destination, recursive }, options);
  }

  async rename(source: string, destination: string, options: FileOptions = {}): Promise<void> {
    this.#require('fsRename', 'rename files');
    await this.#change('fs/rename', { sourcePath: source, destinationPath: destination }, options);
  }

  async hash(paths: readonly string[], options: SymlinkOptions = {}): Promise<readonly HashOutcome[]> {
    this.#require('fsHash', 'hash files');
    const { timeoutMs, ...rest } = options;
    const params = {
      paths: [...paths],
      ...linkParam(options),
      ...(timeoutMs !== undefined && { timeoutMs }),
    };
    const { files } = await this.#call('fs/hash', params, rest);
    if (!Array.isArray(files) || files.length !== paths.length) {
      throw new ClientError(
        'protocol',
        `invalid message from the server: no hash for each of ${paths.length} files`,
      );
    }
    return files.map((file) => hashOutcome(file));
  }

  async search(path: string, pattern: string, options: SearchOptions = {}): Promise<SearchResult> {
    this.#require('fsSearch', 'search files');
    const { signal, ...query } = options;
    return this.#call('fs/search', { path, pattern, ...query }, { signal });
  }

  async watch(path: string, options: WatchOptions = {}): Promise<FileWatch> {
    this.#require('fsWatch', 'watch files');
    const { signal, timeoutMs, ...params } = options;
    return watchRemotely(this.#client, { path, ...params }, { signal, timeoutMs });
  }

  async replaceFile(
    path: string,
    content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    options: FileOptions & { readonly atomic?: boolean } = {},
  ): Promise<void> {
    const atomic = options.atomic ?? true;
    this.#require('fileWriteStreaming', 'write files in blocks');
    if (atomic) this.#require('fsAtomicReplace', 'replace files atomically');
    await this.#invalidating(async () => {
      const file = await this.#open(path, atomic ? 'atomicReplace' : 'replace', options);
      try {
        let offset = 0;
        const writes: Promise<void>[] = [];
        // A server in this process gets the block itself, which is valid only until the next one is requested.
        const maxWrites = this.#client.carriesBytes ? 1 : FILE_BLOCKS_IN_FLIGHT;
        for await (const block of blocksOf(content, options.signal)) {
          writes.push(handled(file.write(offset, block)));
          offset += block.length;
          if (writes.length === maxWrites) await writes.shift();
        }
        await Promise.all(writes);
      } catch (error) {
        await file.abandon();
        throw error;
      }
      await file.close();
    });
  }

  async #change<M extends FileMethod>(
    method: M,
    params: CallParamsOf<M>,
    options: FileOptions,
  ): Promise<void> {
    await this.#invalidating(() => this.#call(method, params, options));
  }

  /** Runs a change. Metadata that was requested before or during it is not shared with later requests. */
  async #invalidating(change: () => Promise<unknown>): Promise<void> {
    this.#metadata.clear();
    try {
      await change();
    } finally {
      this.#metadata.clear();
    }
  }

  /** Calls a method with the sandbox and the limits of `options`. */
  async #call<M extends FileMethod>(
    method: M,
    params: CallParamsOf<M>,
    options: FileOptions,
  ): Promise<ResultOf<M>> {
    const { signal, timeoutMs } = options;
    const full = { ...params, ...sandboxParam(options) };
    try {
      return checkedResult(await this.#client.call(method, full, { signal, timeoutMs }), method);
    } catch (error) {
      throw asFileError(error);
    }
  }

  #require(capability: Capability, verb: string): void {
    if (this.#client.capabilities[capability] === true) return;
    throw new ClientError('unsupported', `the server cannot ${verb}`, {
      hint: `use a server that announces the capability ${capability}`,
    });
  }

  async #open(path: string, mode: OpenMode, options: FileOptions): Promise<RemoteFile> {
    const { signal, timeoutMs } = options;
    try {
      const file = new RemoteFile(this.#client, path, mode, { signal, timeoutMs });
      await file.open(sandboxParam(options));
      return file;
    } catch (error) {
      throw asFileError(error);
    }
  }
}

/** Methods that take the sandbox of the request beside their own params. */
type FileMethod = Extract<Method, `fs/${string}`>;
type OpenMode = NonNullable<CallParamsOf<'fs/open'>['mode']>;

/** A file that is open on the server. */
class RemoteFile {
  readonly #client: FileSystemClient;
  readonly #path: string;
  readonly #mode: OpenMode;
  readonly #options: CallOptions;
  readonly #handleId = randomHex();

  constructor(client: FileSystemClient, path: string, mode: OpenMode, options: CallOptions) {
    this.#client = client;
    this.#path = path;
    this.#mode = mode;
    this.#options = options;
  }

  /** Opens the file. When the client gives up first, the file may still be open on the server. */
  async open(sandbox: { readonly sandbox?: SandboxRequest }): Promise<void> {
    const mode = this.#mode === 'read' ? {} : { mode: this.#mode };
    const params = { handleId: this.#handleId, path: this.#path, ...mode, ...sandbox };
    try {
      await this.#client.call('fs/open', params, this.#options);
    } catch (error) {
      if (!(error instanceof ClientError && error.kind === 'server')) void this.abandon();
      throw error;
    }
  }

  async read(offset: number): Promise<{ readonly bytes: Uint8Array; readonly eof: boolean }> {
    const { chunk, eof } = await this.#call('fs/readBlock', { offset, len: FILE_BLOCK_BYTES });
    const bytes = decoded(chunk, this.#path);
    if (bytes.length > FILE_BLOCK_BYTES || (bytes.length < FILE_BLOCK_BYTES && !eof)) {
      throw new ClientError(
        'invalidData',
        `invalid message from the server: a block of ${bytes.length} bytes of ${this.#path}`,
      );
    }
    return { bytes, eof };
  }

  async write(offset: number, bytes: Uint8Array): Promise<void> {
    await this.#call('fs/writeBlock', { offset, chunk: bytesParam(bytes, this.#client) });
  }

  /** Closes the file. An atomic replacement takes effect. */
  async close(): Promise<void> {
    await this.#call('fs/close', {});
  }

  /**
   * Closes the file and drops an atomic replacement. Resolves when that is done or the caller's limit is reached. A
   * handle that stays open ends with the connection.
   */
  async abandon(): Promise<void> {
    const discard = this.#mode === 'atomicReplace' ? { discard: true } : {};
    const limit = new CallLimit(`closing ${this.#path}`, this.#options);
    const closing = this.#client.call('fs/close', { handleId: this.#handleId, ...discard });
    await limit.race(closing).catch(() => undefined);
    limit.end();
  }

  async #call<M extends 'fs/readBlock' | 'fs/writeBlock' | 'fs/close'>(
    method: M,
    params: Omit<CallParamsOf<M>, 'handleId'>,
  ): Promise<ResultOf<M>> {
    try {
      const full = { ...params, handleId: this.#handleId } as CallParamsOf<M>;
      return checkedResult(await this.#client.call(method, full, this.#options), method);
    } catch (error) {
      throw this.#explained(asFileError(error));
    }
  }

  /** An unknown handle that was opened before has ended with its connection; the file itself may exist. */
  #explained(error: unknown): unknown {
    if (!(error instanceof ClientError && error.kind === 'notFound')) return error;
    const message = `the connection on which ${this.#path} was open is gone`;
    return new ClientError('brokenPipe', message, { cause: error });
  }
}

function hashOutcome({ sha256, size, error }: ResultOf<'fs/hash'>['files'][number]): HashOutcome {
  if (error !== undefined) {
    const { code, message } = error;
    return { error: asFileError(new ClientError('server', message, { code })) as ClientError };
  }
  if (typeof sha256 === 'string' && typeof size === 'number') return { sha256, size };
  throw new ClientError('protocol', 'invalid message from the server: a file without a hash');
}

/** A failure that comes before the caller awaits the work is not an unhandled rejection. */
function handled<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {});
  return work;
}

/** Servers follow links by default, so only false is sent. */
function linkParam({ followSymlinks }: SymlinkOptions): { followSymlinks?: false } {
  return followSymlinks === false ? { followSymlinks } : {};
}

function sandboxParam({ sandbox }: FileOptions): { sandbox?: SandboxRequest } {
  return sandbox == null ? {} : { sandbox: trimSandbox(sandbox) as SandboxRequest };
}

/** Only checks that the result is an object, so that an invalid one is a protocol error. */
function checkedResult<Result>(result: Result, method: string): Result {
  if (typeof result === 'object' && result !== null) return result;
  throw new ClientError(
    'protocol',
    `invalid message from the server: the result of \`${method}\` is not an object`,
  );
}

function decoded(base64: unknown, path: string): Uint8Array {
  const bytes = receivedBytes(base64);
  if (bytes !== null) return bytes;
  throw new ClientError(
    'invalidData',
    `invalid message from the server: the content of ${path} is not base64`,
  );
}
