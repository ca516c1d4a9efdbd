import type {
  CallOptions,
  ExecutorFileSystem,
  FileOptions,
  NewAttributes,
  ReplaceOptions,
  SearchOptions,
  SearchResult,
  SymlinkOptions,
  WatchOptions,
} from '../backend.ts';
import { expectText, wrong } from '../connection/option-checks.ts';
import { ClientError } from '../errors.ts';
import { HASH_PATHS_MAX_LENGTH, HASHES_PER_CALL, WRITE_WHOLE_MAX_BYTES } from '../limits.ts';
import { fileUriOf, type PathLike, toNativePath } from '../paths.ts';
import { escapeBytes, unescapeText } from './escapes.ts';
import { bytesOf } from './file-content.ts';
import { errnoOf, failedWith, namingPath, withPath } from './file-errors.ts';
import {
  expectFileOptions,
  expectFileSource,
  FILE_OPERATIONS,
  type FileOperation,
} from './file-operations.ts';
import type {
  FileEntry,
  FileHash,
  FileInfo,
  FileKind,
  FileSource,
  PathAttributes,
  PathHash,
  PathWatch,
  RemoveOptions,
  WriteOptions,
} from './file-types.ts';
import { attributesOf, type ListTreeOptions, linksIn, listTree, type TreeEntry } from './list-tree.ts';
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
    return this.#onFile('readText', path, options, (uri) => this.fileSystem.readFileText(uri, options));
  }

  /** Reads a file of any size in blocks of up to 1 MiB. `timeoutMs` applies to each block. */
  async *readStream(path: PathLike, options: FileOptions = {}): AsyncGenerator<Uint8Array, void> {
    const blocks = await this.#on('readStream', path, options, async (uri) =>
      this.fileSystem.readFileStream(uri, options)[Symbol.asyncIterator](),
    );
    try {
      for (;;) {
        const { done, value } = await this.#onFile('readStream', path, options, () => blocks.next());
        if (done === true) return;
        yield value;
      }
    } finally {
      await blocks.return?.();
    }
  }

  /** Writes a file and creates it if it does not exist. */
  async write(path: PathLike, content: FileSource, options: WriteOptions = {}): Promise<void> {
    const { parents = true, ifSha256, ...rest } = options;
    const atomic = options.atomic ?? (ifSha256 === undefined ? undefined : true);
    const bytes = typeof content === 'string' || content instanceof Uint8Array ? bytesOf(content) : null;
    const isInPlace = atomic !== true && ifSha256 === undefined;
    const isWhole = bytes !== null && isInPlace && bytes.length <= WRITE_WHOLE_MAX_BYTES;
    await this.#on('write', path, options, async (uri) => {
      expectFileSource(content);
      const write = isWhole
        ? () => this.fileSystem.writeFile(uri, bytes, rest)
        : () =>
            this.#replace(
              uri,
              bytes === null ? (content as Iterable<Uint8Array>) : [bytes],
              { ...rest, ifSha256 },
              atomic,
            );
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

  /**
   * The entries of a directory, sorted by name. A link has the kind of its target, or `symlink` where it leads nowhere. Executors
   * without attributes leave such links out.
   */
  async list(path: PathLike = '.', options: FileOptions = {}): Promise<FileEntry[]> {
    return this.#on('list', path, options, async (uri) => {
      const [listed, links] = await Promise.all([
        this.fileSystem.readDirectory(uri, options),
        linksIn(this.fileSystem, uri, options),
      ]);
      const directory = toNativePath(uri);
      const names = new Set(listed.map(({ fileName }) => fileName));
      const linkNames = links && new Set(Array.from(links, unescapeText));
      const nowhere = [...(linkNames ?? [])].filter((name) => !names.has(name));
      return [
        ...listed.map((entry) => ({ name: entry.fileName, kind: kindOf(entry) })),
        ...nowhere.map((name) => ({ name, kind: 'symlink' as const })),
      ]
        .map(({ name, kind }) => ({
          name,
          path: joinNative(directory, name),
          kind,
          isSymlink: linkNames === null ? null : linkNames.has(name),
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
    return this.#on('realPath', path, options, async (uri) =>
      toNativePath(await this.fileSystem.canonicalize(uri, options)),
    );
  }

  /**
   * Iterates over everything below a directory, parents before their contents. Trees of any size are read in parts. Symbolic links
   * are left out unless `followSymlinks` is set, and then only those to directories are included.
   */
  async *walk(path: PathLike = '.', options: WalkTreeOptions = {}): AsyncGenerator<WalkEntry, void> {
    try {
      expectFileOptions('walk', options);
      yield* walkTree(this.fileSystem, await this.uriOf(path, options), options);
    } catch (error) {
      throw namingPath('walk', path, error);
    }
  }

  /** Finds lines that match a regular expression, in a file or below a directory. */
  search(path: PathLike, pattern: string, options: SearchOptions = {}): Promise<SearchResult> {
    return this.#on('search', path, options, async (uri) => {
      expectText('pattern', pattern, 'pass a regular expression as text, or a text with `literal: true`');
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
    return this.#on('makeDirectory', path, options, (uri) =>
      this.fileSystem.createDirectory(uri, { ...rest, recursive: parents }),
    );
  }

  /** Describes what is at a path itself, with its mode and the target of a link. `unsupported` on executors that lack it. */
  attributes(path: PathLike, options: FileOptions = {}): Promise<PathAttributes> {
    return this.#on('attributes', path, options, (uri) => attributesOf(this.fileSystem, uri, options));
  }

  /**
   * Iterates over everything below a directory with its attributes, parents before their contents. Links are listed and not followed.
   * Unlike {@link walk} it takes one round trip for thousands of entries. Fails with the kind `unsupported` on executors that lack it.
   */
  async *tree(path: PathLike = '.', options: ListTreeOptions = {}): AsyncGenerator<TreeEntry, void> {
    try {
      expectFileOptions('tree', options);
      yield* listTree(this.fileSystem, await this.uriOf(path, options), options);
    } catch (error) {
      throw namingPath('list', path, error);
    }
  }

  /**
   * Sets the mode and the modification time of a file or directory, or the time of a link itself. Fails with the kind `unsupported` on
   * executors that lack it.
   */
  setAttributes(path: PathLike, attributes: NewAttributes, options: FileOptions = {}): Promise<void> {
    return this.#on('setAttributes', path, options, (uri) =>
      this.fileSystem.setAttributes(uri, attributes, options),
    );
  }

  /**
   * Creates a symbolic link at `path` that leads to `target`, which need not exist. With `replace` it replaces a file or link in one
   * step. Fails with the kind `unsupported` on executors that lack it.
   */
  makeLink(
    path: PathLike,
    target: string,
    options: FileOptions & { readonly replace?: boolean } = {},
  ): Promise<void> {
    return this.#on('makeLink', path, options, (uri) =>
      this.fileSystem.createLink(uri, escapeBytes(target), options),
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
    expectFileOptions('hashAll', options);
    if (typeof paths !== 'object' || paths === null || !(Symbol.iterator in paths))
      throw wrong('`paths` is', paths, 'a list of paths');
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
    options: ReplaceOptions,
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
    operation: FileOperation,
    path: PathLike,
    options: CallOptions | SearchOptions,
    work: (uri: string) => Promise<T>,
  ): Promise<T> {
    return withPath(FILE_OPERATIONS[operation].verb, path, async () => {
      expectFileOptions(operation, options);
      const { signal, timeoutMs } = options;
      // The time limit of a search belongs to the search, and null is the default of the server.
      return work(
        await this.uriOf(path, {
          signal,
          ...(operation !== 'search' && { timeoutMs: timeoutMs ?? undefined }),
        }),
      );
    });
  }

  /** Like {@link #on}, for operations on regular files. Servers do not say what else the path is, so a directory is looked up. */
  #onFile<T>(
    operation: FileOperation,
    path: PathLike,
    options: SymlinkOptions,
    work: (uri: string) => Promise<T>,
  ): Promise<T> {
    return this.#on(operation, path, options, async (uri) => {
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
    operation: 'copy' | 'move',
    source: PathLike,
    destination: PathLike,
    options: FileOptions,
    work: (from: string, to: string) => Promise<void>,
  ): Promise<void> {
    const both = `${toNativePath(String(source))} to ${toNativePath(String(destination))}`;
    return withPath(FILE_OPERATIONS[operation].verb, both, async () => {
      expectFileOptions(operation, options);
      await work(await this.uriOf(source, options), await this.uriOf(destination, options));
    });
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
