import type {
  DirectoryEntry,
  ExecutorFileSystem,
  FileChanges,
  FileMetadata,
  FileOptions,
  FileWatch,
  LinkOptions,
  SearchOptions,
  SearchResult,
  WalkOptions,
  WalkResult,
  WatchOptions,
} from '../../client/backend.ts';
import type { LazyConnection, Lease } from './lazy-connection.ts';

/** Files behind a connection that is opened by the first operation, or by none when `passive`. */
export class LazyFileSystem implements ExecutorFileSystem {
  readonly #connection: LazyConnection;
  readonly #passive: boolean;

  constructor(connection: LazyConnection, { passive = false }: { readonly passive?: boolean } = {}) {
    this.#connection = connection;
    this.#passive = passive;
  }

  canonicalize(path: string, options?: FileOptions): Promise<string> {
    return this.#use(options, (files, rest) => files.canonicalize(path, rest));
  }

  readFile(path: string, options?: LinkOptions): Promise<Uint8Array> {
    return this.#use(options, (files, rest) => files.readFile(path, rest));
  }

  readFileText(path: string, options?: LinkOptions): Promise<string> {
    return this.#use(options, (files, rest) => files.readFileText(path, rest));
  }

  /** The time limit is for each block, and for the connection. */
  async *readFileStream(path: string, options?: FileOptions): AsyncGenerator<Uint8Array, void> {
    const lease = await this.#lease(options);
    try {
      yield* lease.connection.files.readFileStream(path, options);
    } finally {
      lease.release();
    }
  }

  /** The bytes are copied: the caller may use its buffer again while the connection is opened. */
  writeFile(path: string, bytes: Uint8Array | string, options?: LinkOptions): Promise<void> {
    const content = typeof bytes === 'string' ? bytes : Uint8Array.from(bytes);
    return this.#use(options, (files, rest) => files.writeFile(path, content, rest));
  }

  createDirectory(path: string, options?: LinkOptions & { readonly recursive?: boolean }): Promise<void> {
    return this.#use(options, (files, rest) => files.createDirectory(path, rest));
  }

  getMetadata(path: string, options?: LinkOptions): Promise<FileMetadata> {
    return this.#use(options, (files, rest) => files.getMetadata(path, rest));
  }

  readDirectory(path: string, options?: FileOptions): Promise<readonly DirectoryEntry[]> {
    return this.#use(options, (files, rest) => files.readDirectory(path, rest));
  }

  walk(path: string, walk: WalkOptions, options?: FileOptions): Promise<WalkResult> {
    return this.#use(options, (files, rest) => files.walk(path, walk, rest));
  }

  remove(
    path: string,
    options?: LinkOptions & { readonly recursive?: boolean; readonly force?: boolean },
  ): Promise<void> {
    return this.#use(options, (files, rest) => files.remove(path, rest));
  }

  copy(
    source: string,
    destination: string,
    options: FileOptions & { readonly recursive: boolean },
  ): Promise<void> {
    return this.#use(options, (files, rest) => files.copy(source, destination, rest));
  }

  rename(source: string, destination: string, options?: FileOptions): Promise<void> {
    return this.#use(options, (files, rest) => files.rename(source, destination, rest));
  }

  /** The time limit is the search's own and begins with it. */
  async search(path: string, pattern: string, options?: SearchOptions): Promise<SearchResult> {
    const signal = options?.signal;
    return this.#use(signal && { signal }, (files) => files.search(path, pattern, options));
  }

  async watch(path: string, options?: WatchOptions): Promise<FileWatch> {
    const lease = await this.#lease(options);
    try {
      const watch = await lease.connection.files.watch(path, { ...options, ...lease.options });
      return new HeldWatch(watch, lease.release);
    } catch (error) {
      lease.release();
      throw error;
    }
  }

  /** The time limit is for each block, and for the connection. */
  replaceFile(
    path: string,
    content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    options?: FileOptions & { readonly atomic?: boolean },
  ): Promise<void> {
    return this.#use(options, (files) => files.replaceFile(path, content, options));
  }

  async #use<O extends FileOptions, T>(
    options: O | undefined,
    operation: (files: ExecutorFileSystem, options: O) => Promise<T>,
  ): Promise<T> {
    const lease = await this.#lease(options);
    try {
      return await operation(lease.connection.files, { ...options, ...lease.options } as O);
    } finally {
      lease.release();
    }
  }

  /** Not an async function: it would delay the call behind later ones that the caller made through other services. */
  #lease(options: FileOptions | undefined): Lease | Promise<Lease> {
    return this.#passive ? this.#connection.leaseNow() : this.#connection.lease(options);
  }
}

/** A watch that keeps its connection until it ends. */
class HeldWatch implements FileWatch {
  readonly #watch: FileWatch;
  readonly #release: () => void;

  constructor(watch: FileWatch, release: () => void) {
    this.#watch = watch;
    this.#release = release;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<FileChanges> {
    try {
      yield* this.#watch;
    } finally {
      this.#release();
    }
  }

  async close(): Promise<void> {
    this.#release();
    await this.#watch.close();
  }
}
