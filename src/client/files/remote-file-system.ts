import type { Capability } from '../../protocol/environment.ts';
import type { CallParamsOf, Method, ResultOf } from '../../protocol/registry.ts';
import type { SandboxRequest } from '../../protocol/sandbox.ts';
import type {
  DirectoryEntry,
  ExecutorFileSystem,
  FileMetadata,
  FileOptions,
  FileWatch,
  HashOutcome,
  ListResult,
  NewAttributes,
  ReplacementContent,
  ReplaceOptions,
  SearchOptions,
  SearchResult,
  SymlinkOptions,
  WalkOptions,
  WalkResult,
  WatchOptions,
} from '../backend.ts';
import { bytesParam } from '../connection/bytes.ts';
import { asFileError } from '../connection/call-errors.ts';
import { serverErrorKind } from '../connection/error-kinds.ts';
import { ClientError } from '../errors.ts';
import { FILE_BLOCK_BYTES, FILE_BLOCKS_IN_FLIGHT } from '../limits.ts';
import { blocksOf, bytesOf, textOf } from './file-content.ts';
import { callForBytes, decoded, type OpenMode, type OpenOptions, RemoteFile } from './remote-file.ts';
import { type WatchClient, watchRemotely } from './remote-file-watch.ts';
import { trimSandbox } from './sandbox-context.ts';

/** The part of a client that a remote file system needs. */
export interface FileSystemClient extends WatchClient {
  readonly capabilities: Readonly<Partial<Record<Capability, boolean>>>;
  /** Whether a base64 parameter may be a Uint8Array. Default: false. */
  readonly takesBytes?: boolean;
  /** Like `call`. The large base64 member of a result may be a Uint8Array. */
  readonly callForBytes?: WatchClient['call'];
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

  async *readFileStream(
    path: string,
    options: FileOptions & { readonly offset?: number } = {},
  ): AsyncGenerator<Uint8Array, void> {
    const file = await this.#open(path, 'read', options);
    const reads: ReturnType<RemoteFile['read']>[] = [];
    try {
      // A small file takes one request. The client reads ahead in a large one, because each request takes a round trip.
      for (
        let offset = options.offset ?? 0, ahead = 1;
        ;
        ahead = Math.min(2 * ahead, FILE_BLOCKS_IN_FLIGHT)
      ) {
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

  async list(
    paths: readonly string[],
    options: FileOptions & { readonly recursive?: boolean } = {},
  ): Promise<ListResult> {
    this.#require('fsAttributes', 'list attributes');
    const { recursive } = options;
    const params = { paths: [...paths], ...(recursive !== undefined && { recursive }) };
    return this.#call('fs/list', params, options);
  }

  async setAttributes(path: string, attributes: NewAttributes, options: FileOptions = {}): Promise<void> {
    this.#require('fsAttributes', 'set attributes');
    await this.#change('fs/setAttributes', { path, ...attributes }, options);
  }

  async createLink(
    path: string,
    target: string,
    options: FileOptions & { readonly replace?: boolean } = {},
  ): Promise<void> {
    this.#require('fsAttributes', 'create symbolic links');
    const { replace } = options;
    await this.#change('fs/createLink', { path, target, replace }, options);
  }

  async replaceFile(path: string, content: ReplacementContent, options: ReplaceOptions = {}): Promise<void> {
    const atomic = options.atomic ?? true;
    this.#require('fileWriteStreaming', 'write files in blocks');
    if (atomic) this.#require('fsAtomicReplace', 'replace files atomically');
    if (options.attributes !== undefined) this.#require('fsAttributes', 'create files with attributes');
    const { attributes, resumeKey, durable, ifSha256, signal, timeoutMs } = options;
    if (ifSha256 !== undefined) {
      this.#require('fsIfSha256', 'compare a file before it replaces it');
      if (!atomic) throw new ClientError('invalidInput', '`ifSha256` needs an atomic replacement');
    }
    const isResumable = resumeKey !== undefined && this.#client.capabilities.fsResume === true;
    const isQuick = durable === false && this.#client.capabilities.fsAttributes === true;
    const canCompare = atomic && this.#client.capabilities.fsCloseHash === true;
    const isCompared = canCompare && options.compareHash === true && typeof content === 'function';
    const params = {
      ...(attributes && { attributes }),
      ...(isResumable && { resumeKey }),
      ...(isCompared && { hash: true }),
      ...(isQuick && { durable }),
      ...(ifSha256 !== undefined && { ifSha256 }),
    };
    const file = new RemoteFile(this.#client, path, atomic ? 'atomicReplace' : 'replace', {
      signal,
      timeoutMs,
    });
    await this.#invalidating(async () => {
      if (Array.isArray(content)) {
        await this.#replaceAtOnce(file, content as readonly Uint8Array[], {
          ...params,
          ...sandboxParam(options),
        });
        return;
      }
      const part = await file.open({ ...params, ...sandboxParam(options) }).catch(rethrowFileError);
      let sha256: string | undefined;
      try {
        const source = typeof content === 'function' ? await content(part) : { offset: 0, content };
        const isWhole = isCompared && source.offset === 0;
        let { offset } = source;
        const writes: Promise<void>[] = [];
        for await (const block of blocksOf(source.content, options.signal)) {
          writes.push(handled(file.write(offset, block)));
          offset += block.length;
          if (writes.length === FILE_BLOCKS_IN_FLIGHT) await writes.shift();
        }
        await Promise.all(writes);
        if (isWhole && 'sha256' in source) sha256 = source.sha256?.();
      } catch (error) {
        await file.abandon();
        throw error;
      }
      await file.close(sha256);
    });
  }

  /** Content that is in memory needs one round trip: the server handles the requests for one file in order. */
  async #replaceAtOnce(file: RemoteFile, content: readonly Uint8Array[], params: OpenOptions): Promise<void> {
    const opening = handled(file.open(params));
    const writes: Promise<void>[] = [];
    let offset = 0;
    try {
      for (const bytes of content) {
        for (let start = 0; start < bytes.length; start += FILE_BLOCK_BYTES) {
          const block = bytes.subarray(start, start + FILE_BLOCK_BYTES);
          writes.push(handled(file.write(offset, block)));
          offset += block.length;
          if (writes.length > FILE_BLOCKS_IN_FLIGHT) await writes[writes.length - FILE_BLOCKS_IN_FLIGHT];
        }
      }
      // An atomic replacement does not take effect if one of its writes has failed.
      const closing = handled(file.close());
      await opening;
      await Promise.all(writes);
      await closing;
    } catch (error) {
      // Without the file nothing of it can be written, and the reason is why it could not be opened.
      await opening.catch(rethrowFileError);
      await file.abandon();
      throw error;
    }
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
      return await callForBytes(this.#client, method, full, { signal, timeoutMs });
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
    const file = new RemoteFile(this.#client, path, mode, { signal, timeoutMs });
    await file.open(sandboxParam(options)).catch(rethrowFileError);
    return file;
  }
}

/** Methods that take the sandbox of the request beside their own params. */
type FileMethod = Extract<Method, `fs/${string}`>;
function rethrowFileError(error: unknown): never {
  throw asFileError(error);
}

function hashOutcome({ sha256, size, error }: ResultOf<'fs/hash'>['files'][number]): HashOutcome {
  if (error !== undefined) {
    const { code, message } = error;
    return { error: new ClientError(serverErrorKind(code, message), message, { code }) };
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
