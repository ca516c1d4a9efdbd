import type {
  CallOptions,
  ExecutorFileSystem,
  FileOptions,
  SearchOptions,
  SearchResult,
  SymlinkOptions,
  WatchOptions,
} from '../backend.ts';
import { ClientError } from '../errors.ts';
import { HASH_PATHS_MAX_LENGTH, HASHES_PER_CALL, WRITE_WHOLE_MAX_BYTES } from '../limits.ts';
import { fileUriOf, type PathLike, toNativePath } from '../paths.ts';
import { bytesOf } from './file-content.ts';
import { errnoOf, failedWith, namingPath, withPath } from './file-errors.ts';
import type {
  FileEntry,
  FileHash,
  FileInfo,
  FileKind,
  FileSource,
  PathHash,
  PathWatch,
  RemoveOptions,
  WriteOptions,
} from './file-types.ts';
import { type WalkEntry, type WalkTreeOptions, walkTree } from './walk-tree.ts';

/** Where {@link Files} come from. */
export interface FilesSource {
  readonly fileSystem: ExecutorFileSystem;
  /** The directory that relative paths are relative to, as a `file:` URI; null when it is unknown. */
  defaultDirectory(options: CallOptions): Promise<string | null>;
}

/**
 * The files of an executor, for people. Paths are native paths or `file:` URIs; relative ones are relative to the executor's default
 * directory. Results contain native paths, or a `file:` URI for a path that is not UTF-8. Errors are ClientErrors that name the path.
 */
export class Files {
  /** The operations of the protocol, with `file:` URIs. */
  readonly fileSystem: ExecutorFileSystem;
  readonly #defaultDirectory: FilesSource['defaultDirectory'];

  constructor({ fileSystem, defaultDirectory }: FilesSource) {
    this.fileSystem = fileSystem;
    this.#defaultDirectory = defaultDirectory;
  }

  /** Returns the `file:` URI of a path. */
  uriOf(path: PathLike, { signal, timeoutMs }: CallOptions = {}): Promise<string> {
    return fileUriOf(path, () => this.#defaultDirectory({ signal, timeoutMs }));
  }

  /** Reads a whole file, up to 512 MiB. */
  read(path: PathLike, options: SymlinkOptions = {}): Promise<Uint8Array> {
    return this.#onFile('read', path, options, (uri) => this.fileSystem.readFile(uri, options));
  }

  /** Reads a UTF-8 file. Other encodings fail with the kind `invalidData`. */
  readText(path: PathLike, options: SymlinkOptions = {}): Promise<string> {
    return this.#onFile('read', path, options, (uri) => this.fileSystem.readFileText(uri, options));
  }

  /** Reads a file of any size in blocks of up to 1 MiB. `timeoutMs` applies to each block. */
  async *readStream(path: PathLike, options: FileOptions = {}): AsyncGenerator<Uint8Array, void> {
    const blocks = await this.#on('read', path, options, async (uri) =>
      this.fileSystem.readFileStream(uri, options)[Symbol.asyncIterator](),
    );
    try {
      for (;;) {
        const { done, value } = await this.#onFile('read', path, options, () => blocks.next());
        if (done === true) return;
        yield value;
      }
    } finally {
      await blocks.return?.();
    }
  }

  /** Writes a file and creates it if it does not exist. */
  async write(path: PathLike, content: FileSource, options: WriteOptions = {}): Promise<void> {
    const { parents = true, atomic, ...rest } = options;
    const bytes = typeof content === 'string' || content instanceof Uint8Array ? bytesOf(content) : null;
    const isWhole = bytes !== null && atomic !== true && bytes.length <= WRITE_WHOLE_MAX_BYTES;
    await this.#on('write', path, options, async (uri) => {
      const write = isWhole
        ? () => this.fileSystem.writeFile(uri, bytes, rest)
        : () =>
            this.#replace(uri, bytes === null ? (content as Iterable<Uint8Array>) : [bytes], rest, atomic);
      try {
        await write();
      } catch (error) {
        // Nothing of a stream is read before the file is open.
        if (!parents || !failedWith(error, 'notFound')) throw error;
        await this.fileSystem.createDirectory(parentUri(uri), { ...rest, recursive: true });
        await write();
      }
    });
  }

  /** The entries of a directory, sorted by name. Links that lead nowhere are left out. */
  async list(path: PathLike = '.', options: FileOptions = {}): Promise<FileEntry[]> {
    return this.#on('list', path, options, async (uri) => {
      const entries = await this.fileSystem.readDirectory(uri, options);
      const directory = toNativePath(uri);
      return entries
        .map((entry) => ({
          name: entry.fileName,
          path: joinNative(directory, entry.fileName),
          kind: kindOf(entry),
        }))
        .sort((one, other) => (one.name < other.name ? -1 : one.name > other.name ? 1 : 0));
    });
  }

  /** Describes a file or directory. */
  async stat(path: PathLike, options: SymlinkOptions = {}): Promise<FileInfo> {
    return this.#on('stat', path, options, async (uri) => {
      const metadata = await this.fileSystem.getMetadata(uri, options);
      const { isSymlink, size, modifiedAtMs, createdAtMs } = metadata;
      return {
        path: toNativePath(uri),
        kind: kindOf(metadata),
        isSymlink,
        size,
        modifiedAt: new Date(modifiedAtMs),
        createdAt: createdAtMs === 0 ? null : new Date(createdAtMs),
      };
    });
  }

  /** Whether a file or directory exists. A link that leads nowhere does not. */
  async exists(path: PathLike, options: SymlinkOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options);
      return true;
    } catch (error) {
      if (failedWith(error, 'notFound', 'notDirectory')) return false;
      throw error;
    }
  }

  /** The real path, without links. */
  realPath(path: PathLike, options: FileOptions = {}): Promise<string> {
    return this.#on('resolve', path, options, async (uri) =>
      toNativePath(await this.fileSystem.canonicalize(uri, options)),
    );
  }

  /**
   * Iterates over everything below a directory, parents before their contents. Trees of any size are read in parts. Symbolic links
   * are left out unless `followSymlinks` is set, and then only those to directories are included.
   */
  async *walk(path: PathLike = '.', options: WalkTreeOptions = {}): AsyncGenerator<WalkEntry, void> {
    const entries = walkTree(this.fileSystem, await this.uriOf(path, options), options);
    try {
      yield* entries;
    } catch (error) {
      throw namingPath('walk', path, error);
    }
  }

  /** Finds lines that match a regular expression, in a file or below a directory. */
  search(path: PathLike, pattern: string, options: SearchOptions = {}): Promise<SearchResult> {
    return this.#on('search', path, { signal: options.signal }, async (uri) => {
      const found = await this.fileSystem.search(uri, pattern, options);
      return {
        ...found,
        matches: found.matches.map((match) => ({ ...match, path: toNativePath(match.path) })),
        ...(found.incompleteFiles && { incompleteFiles: found.incompleteFiles.map(toNativePath) }),
      };
    });
  }

  /** Watches a file or a directory and everything below it, from the time when the promise resolves. */
  watch(path: PathLike = '.', options: WatchOptions = {}): Promise<PathWatch> {
    return this.#on('watch', path, options, async (uri) => {
      const watch = await this.fileSystem.watch(uri, options);
      return {
        async *[Symbol.asyncIterator]() {
          try {
            for await (const { changes, overflow } of watch) {
              yield {
                changes: changes.map((change) => ({ ...change, path: toNativePath(change.path) })),
                overflow,
              };
            }
          } catch (error) {
            throw namingPath('watch', path, error);
          }
        },
        close: () => watch.close(),
        [Symbol.asyncDispose]: () => watch.close(),
      };
    });
  }

  /** Copies a file or a directory with its content, on the executor. */
  copy(source: PathLike, destination: PathLike, options: FileOptions = {}): Promise<void> {
    return this.#between('copy', source, destination, options, (from, to) =>
      this.fileSystem.copy(from, to, { ...options, recursive: true }),
    );
  }

  /**
   * Renames a file or directory and replaces an existing file. To another file system, or on an executor that cannot rename, it copies
   * and then removes the source.
   */
  move(source: PathLike, destination: PathLike, options: FileOptions = {}): Promise<void> {
    return this.#between('move', source, destination, options, async (from, to) => {
      try {
        await this.fileSystem.rename(from, to, options);
      } catch (error) {
        if (errnoOf(error) !== EXDEV && !failedWith(error, 'unsupported')) throw error;
        await this.fileSystem.copy(from, to, { ...options, recursive: true });
        await this.fileSystem.remove(from, { ...options, recursive: true });
      }
    });
  }

  /** Removes a file, a link or a directory. */
  async remove(path: PathLike, options: RemoveOptions = {}): Promise<void> {
    const { recursive = false, force = false } = options;
    await this.#on('remove', path, options, async (uri) => {
      try {
        await this.fileSystem.remove(uri, { ...options, recursive, force });
      } catch (error) {
        if (recursive || errnoOf(error) !== ENOTEMPTY) throw error;
        throw new ClientError('invalidInput', 'the directory is not empty', {
          hint: 'pass recursive: true to remove everything in it',
          cause: error,
        });
      }
    });
  }

  /** Creates a directory. With `parents`, the default, it also creates missing parents, and an existing directory is no error. */
  makeDirectory(
    path: PathLike,
    options: SymlinkOptions & { readonly parents?: boolean } = {},
  ): Promise<void> {
    const { parents = true, ...rest } = options;
    return this.#on('create the directory', path, options, (uri) =>
      this.fileSystem.createDirectory(uri, { ...rest, recursive: parents }),
    );
  }

  /** The SHA-256 of a file, computed by the executor. Fails with the kind `unsupported` on executors that lack it. */
  async hash(path: PathLike, options: SymlinkOptions = {}): Promise<FileHash> {
    return this.#onFile('hash', path, options, async (uri) => {
      const [outcome] = await this.fileSystem.hash([uri], options);
      if (outcome!.error !== undefined) throw outcome!.error;
      return outcome!;
    });
  }

  /** The SHA-256 of any number of files, or the error of each. `timeoutMs` applies to each 1,000 of them. */
  async hashAll(paths: Iterable<PathLike>, options: SymlinkOptions = {}): Promise<PathHash[]> {
    const all = [...paths];
    const uris = await Promise.all(all.map((path) => this.uriOf(path, options)));
    const hashes: PathHash[] = [];
    while (hashes.length < uris.length) {
      const part = firstPart(uris, hashes.length);
      for (const outcome of await this.fileSystem.hash(part, options)) {
        const uri = uris[hashes.length]!;
        const path = toNativePath(uri);
        hashes.push(
          outcome.error === undefined
            ? { path, ...outcome }
            : { path, error: namingPath('hash', uri, outcome.error) as ClientError },
        );
      }
    }
    return hashes;
  }

  async #replace(
    uri: string,
    content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    options: FileOptions,
    atomic: boolean | undefined,
  ): Promise<void> {
    try {
      await this.fileSystem.replaceFile(uri, content, { ...options, atomic: atomic ?? true });
    } catch (error) {
      // Nothing has been read of the content.
      if (atomic !== undefined || !failedWith(error, 'unsupported')) throw error;
      await this.fileSystem.replaceFile(uri, content, { ...options, atomic: false });
    }
  }

  #on<T>(
    action: string,
    path: PathLike,
    options: CallOptions,
    work: (uri: string) => Promise<T>,
  ): Promise<T> {
    return withPath(action, path, async () => work(await this.uriOf(path, options)));
  }

  /** Like {@link #on}, for operations on regular files. Servers do not say what else the path is, so a directory is looked up. */
  #onFile<T>(
    action: string,
    path: PathLike,
    options: SymlinkOptions,
    work: (uri: string) => Promise<T>,
  ): Promise<T> {
    return this.#on(action, path, options, async (uri) => {
      try {
        return await work(uri);
      } catch (error) {
        if (!(error instanceof ClientError) || !/ is not a (?:regular )?file$/.test(error.message))
          throw error;
        const metadata = await this.fileSystem.getMetadata(uri, options).catch(() => null);
        throw metadata?.isDirectory
          ? new ClientError('isDirectory', 'it is a directory', { cause: error })
          : error;
      }
    });
  }

  #between(
    action: string,
    source: PathLike,
    destination: PathLike,
    options: FileOptions,
    work: (from: string, to: string) => Promise<void>,
  ): Promise<void> {
    const both = `${toNativePath(String(source))} to ${toNativePath(String(destination))}`;
    return withPath(action, both, async () =>
      work(await this.uriOf(source, options), await this.uriOf(destination, options)),
    );
  }
}

/** As many paths from `start` on as fit one request. */
function firstPart(uris: readonly string[], start: number): string[] {
  const part: string[] = [];
  for (let length = 0; part.length < HASHES_PER_CALL; ) {
    const uri = uris[start + part.length];
    if (uri === undefined) break;
    length += uri.length;
    if (part.length > 0 && length > HASH_PATHS_MAX_LENGTH) break;
    part.push(uri);
  }
  return part;
}

const EXDEV = 18;
const ENOTEMPTY = 39;

function kindOf({
  isFile,
  isDirectory,
}: {
  readonly isFile: boolean;
  readonly isDirectory: boolean;
}): FileKind {
  return isDirectory ? 'directory' : isFile ? 'file' : 'other';
}

/** The path of an entry. The directory may be a URI, because its path is not UTF-8. */
function joinNative(directory: string, name: string): string {
  if (/^file:/i.test(directory)) return `${directory.replace(/\/$/, '')}/${encodeURIComponent(name)}`;
  const separator = /^(?:[A-Za-z]:)?\\|^[A-Za-z]:/.test(directory) ? '\\' : '/';
  return directory.endsWith(separator) ? directory + name : directory + separator + name;
}

/** The URI of the directory that a path is in. */
export function parentUri(uri: string): string {
  return uri.replace(/\/+$/, '').replace(/\/[^/]*$/, '') || uri;
}
