import type { ExecutorFileSystem, PathListing, ReplacementContent } from '../../client/backend.ts';
import type { ExecServerClient } from '../../client/client.ts';
import { ClientError } from '../../client/errors.ts';
import { failedWith, withPath } from '../../client/files/file-errors.ts';
import { listingError } from '../../client/files/list-tree.ts';
import { temporaryPartName } from '../../client/files/transfer/temporary-part-name.ts';
import { childPath, isWithin, type NativePath } from '../../files/native-path.ts';
import { decodeEscapes, escapeBytes, pathFromUri, uriFromPath } from '../../files/path-uri.ts';
import type { ChangeQueue } from './change-queue.ts';
import {
  HASH_TIMEOUT_MS,
  LISTED_DIRECTORIES,
  REQUEST_RETRIES,
  SMALL_FILE_BYTES,
  WATCH_DEBOUNCE_MS,
} from './limits.ts';
import { ChangedError, type Content, type Named, type Side } from './side.ts';
import {
  type Attributes,
  type Entry,
  type FileEntry,
  isName,
  joined,
  parentOf,
  type Removal,
} from './tree.ts';
import { watchExclusions } from './watch-exclusions.ts';

/** A directory of a server's machine. What the server sends is checked: it must not choose a place outside the tree. */
export class RemoteSide implements Side {
  readonly name: string;
  readonly #client: Pick<ExecServerClient, 'files'>;
  readonly #files: ExecutorFileSystem;
  readonly #signal: AbortSignal;
  /** The real path, without links, once it is known. */
  #root: NativePath;
  #replacesAtomically = true;

  constructor(name: string, root: NativePath, client: Pick<ExecServerClient, 'files'>, signal: AbortSignal) {
    this.name = name;
    this.#client = client;
    this.#files = client.files.fileSystem;
    this.#root = root;
    this.#signal = signal;
  }

  /** The path of the root, without links. */
  async realRoot(): Promise<NativePath> {
    const uri = await this.#on('read', '', (uri) => this.#files.canonicalize(uri, this.#call));
    try {
      this.#root = pathFromUri(uri);
    } catch {
      throw invalid('the real path of a directory');
    }
    return this.#root;
  }

  async list(directories: readonly string[]): Promise<readonly (readonly Named[] | Error)[]> {
    const found = new Map<string, readonly Named[] | Error>();
    const pending = directories.map((directory) => this.#uriOf(directory));
    for (let requests = 0; pending.length > 0; requests++) {
      const uris = pending.splice(0, LISTED_DIRECTORIES);
      const { listings, unlisted } = await this.#on('list', directories[0]!, () =>
        this.#files.list(uris, this.#call),
      );
      if (listings.length === 0 || requests > 2 * directories.length) {
        throw invalid('a listing without directories');
      }
      for (const listing of listings) found.set(listing.path, entriesOf(listing));
      pending.unshift(...unlisted);
    }
    return directories.map(
      (directory) => found.get(this.#uriOf(directory)) ?? invalid('a directory is missing in a listing'),
    );
  }

  async stat(path: string): Promise<Entry | null> {
    const { listings } = await this.#on('read', path, (uri) => this.#files.list([uri], this.#call));
    const { attributes, error } = listings[0] ?? {};
    if (attributes !== undefined) return entryOf(attributes);
    const failure = error === undefined ? invalid('a path without attributes') : listingError(error);
    if (failedWith(failure, 'notFound', 'notDirectory')) return null;
    throw failure;
  }

  async isDirectory(path: string): Promise<boolean> {
    return (await this.#metadata(path))?.isDirectory === true;
  }

  async readSmall(path: string, maxBytes: number): Promise<string | null> {
    const { size = 0 } = (await this.#metadata(path)) ?? {};
    return size > maxBytes ? null : Buffer.from(await this.#readWhole(path)).toString('latin1');
  }

  async *read(path: string, entry: FileEntry): AsyncGenerator<Uint8Array, void> {
    let received = 0;
    for await (const block of this.#blocks(path, entry)) {
      received += block.length;
      // An endless file must not fill the disk of this machine.
      if (received > entry.size) throw new ChangedError();
      yield block;
    }
    const metadata = await this.#metadata(path);
    const isSame =
      metadata?.isFile && metadata.size === entry.size && metadata.modifiedAtMs === entry.mtimeMs;
    if (!isSame || received !== entry.size) throw new ChangedError();
  }

  async hash(paths: readonly string[]): Promise<readonly (string | Error)[]> {
    const uris = paths.map((path) => this.#uriOf(path));
    const options = { ...this.#call, followSymlinks: false, timeoutMs: HASH_TIMEOUT_MS };
    const hashes = await this.#on('hash', '', () => this.#client.files.hashAll(uris, options));
    return hashes.map((outcome) => outcome.error ?? outcome.sha256);
  }

  async watch(ignored: readonly string[], queue: ChangeQueue): Promise<() => void> {
    const options = { exclude: watchExclusions(ignored), debounceMs: WATCH_DEBOUNCE_MS, ...this.#call };
    const watch = await this.#on('watch', '', (uri) => this.#files.watch(uri, options));
    const follow = async () => {
      for await (const { changes, overflow } of watch) {
        if (overflow) queue.overflow();
        for (const { path: uri, kind } of changes) {
          const path = this.#relative(uri);
          if (path === null) queue.overflow();
          else queue.add(path, kind === 'created');
        }
      }
    };
    follow().catch((error: unknown) => queue.fail(error));
    return () => void watch.close();
  }

  async makeRoot(): Promise<void> {
    await this.#on('create', '', (uri) =>
      this.#files.createDirectory(uri, { ...this.#call, recursive: true }),
    );
    await this.realRoot();
  }

  async makeDirectory(path: string): Promise<void> {
    const options = { ...this.#call, recursive: false, followSymlinks: false };
    await this.#on('create', path, (uri) => this.#files.createDirectory(uri, options)).catch(
      async (error) => {
        if (!(await this.isDirectory(path))) throw error;
      },
    );
  }

  async makeLink(path: string, target: string): Promise<void> {
    const options = { ...this.#call, replace: true };
    await this.#on('create', path, (uri) => this.#files.createLink(uri, escapeBytes(target), options));
  }

  async replaceFile(path: string, { size, blocks }: Content, attributes: Attributes): Promise<void> {
    // What is in memory takes one round trip.
    const content = size <= SMALL_FILE_BYTES ? await collected(blocks) : blocks;
    if (this.#replacesAtomically) {
      try {
        const options = { ...this.#call, attributes: newAttributes(attributes) };
        await withPath('write', this.#uriOf(path), () =>
          this.#files.replaceFile(this.#uriOf(path), content, options),
        );
        return;
      } catch (error) {
        // A token that is limited to a directory does not allow atomic replacements, because they follow links.
        if (!failedWith(error, 'unsupported', 'invalidInput')) throw error;
        this.#replacesAtomically = false;
      }
    }
    await this.#replaceByRenaming(path, content, attributes);
  }

  async setAttributes(path: string, attributes: Attributes): Promise<void> {
    await this.#on('set the attributes of', path, (uri) =>
      this.#files.setAttributes(uri, newAttributes(attributes), this.#call),
    );
  }

  async remove({ path }: Removal): Promise<void> {
    const options = { ...this.#call, recursive: false, force: true };
    await this.#on('delete', path, (uri) => this.#files.remove(uri, options));
  }

  get #call() {
    return { signal: this.#signal };
  }

  #uriOf(path: string): string {
    return uriFromPath(path === '' ? this.#root : childPath(this.#root, path));
  }

  /** Runs an operation of the server, again if the connection was lost meanwhile. All of them may be repeated. */
  #on<T>(action: string, path: string, work: (uri: string) => Promise<T>): Promise<T> {
    const uri = this.#uriOf(path);
    return withPath(action, uri, async () => {
      for (let attempt = 0; ; attempt++) {
        try {
          return await work(uri);
        } catch (error) {
          if (attempt === REQUEST_RETRIES || !failedWith(error, 'brokenPipe')) throw error;
        }
      }
    });
  }

  /** The relative path of a URI; null for one that is not below the root. */
  #relative(uri: string): string | null {
    try {
      const path = pathFromUri(uri);
      if (path === this.#root || !isWithin(path, this.#root)) return null;
      const relative = path.slice(this.#root === '/' ? 1 : this.#root.length + 1);
      return relative.split('/').every(isName) ? relative : null;
    } catch {
      return null;
    }
  }

  /** Null where nothing is, or a link. */
  async #metadata(path: string) {
    try {
      const options = { ...this.#call, followSymlinks: false };
      return await this.#on('read', path, (uri) => this.#files.getMetadata(uri, options));
    } catch (error) {
      if (failedWith(error, 'notFound', 'notDirectory', 'invalidInput')) return null;
      throw error;
    }
  }

  async *#blocks(path: string, entry: FileEntry): AsyncGenerator<Uint8Array, void> {
    if (entry.size <= SMALL_FILE_BYTES) yield await this.#readWhole(path);
    else yield* this.#files.readFileStream(this.#uriOf(path), this.#call);
  }

  async #readWhole(path: string): Promise<Uint8Array> {
    try {
      const options = { ...this.#call, followSymlinks: false };
      return await this.#on('read', path, (uri) => this.#files.readFile(uri, options));
    } catch (error) {
      if (failedWith(error, 'notFound', 'notDirectory')) throw new ChangedError();
      throw error;
    }
  }

  async #replaceByRenaming(path: string, content: ReplacementContent, attributes: Attributes): Promise<void> {
    const temporary = this.#uriOf(joined(parentOf(path), temporaryPartName()));
    try {
      await withPath('write', this.#uriOf(path), async () => {
        await this.#files.replaceFile(temporary, content, { ...this.#call, atomic: false });
        await this.#files.setAttributes(temporary, newAttributes(attributes), this.#call);
        await this.#files.rename(temporary, this.#uriOf(path), this.#call);
      });
    } catch (error) {
      await this.#files.remove(temporary, { force: true, recursive: false }).catch(() => {});
      throw error;
    }
  }
}

async function collected(blocks: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const all: Uint8Array[] = [];
  // A block is valid only until the next one.
  for await (const block of blocks) all.push(Uint8Array.from(block));
  return all;
}

type ListedAttributes = NonNullable<PathListing['attributes']>;

function entriesOf({ entries, error, path }: PathListing): readonly Named[] | Error {
  if (error !== undefined) return listingError(error);
  if (entries === undefined) return new ClientError('notDirectory', 'it is no directory');
  const names = new Set<string>();
  return entries.map((listed) => {
    const name = decodeEscapes(listed.name);
    if (!isName(name) || names.has(name)) throw invalid(`a name in ${path}`);
    names.add(name);
    return { name, entry: entryOf(listed) };
  });
}

function entryOf({ kind, size, mode, modifiedAtMs, target }: ListedAttributes): Entry {
  if (kind === 'directory') return { kind, mode: mode & 0o777 };
  if (kind === 'symlink') {
    const bytes = decodeEscapes(target ?? '');
    if (bytes === '' || /[\0]|[^\u0000-\u00ff]/.test(bytes)) throw invalid('the target of a link');
    return { kind: 'link', target: bytes };
  }
  if (kind !== 'file') return { kind: 'special' };
  if (!Number.isSafeInteger(size) || size < 0 || !Number.isSafeInteger(modifiedAtMs))
    throw invalid('the size or time of a file');
  return { kind, size, mtimeMs: modifiedAtMs, mode: mode & 0o777 };
}

function newAttributes({ mode, mtimeMs }: Attributes) {
  return { ...(mode !== undefined && { mode }), ...(mtimeMs !== undefined && { modifiedAtMs: mtimeMs }) };
}

function invalid(what: string): ClientError {
  return new ClientError('protocol', `invalid message from the server: ${what}`);
}
