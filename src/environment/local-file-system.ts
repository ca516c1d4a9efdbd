import type {
  CallOptions,
  DirectoryEntry,
  ExecutorFileSystem,
  FileMetadata,
  FileOptions,
  FileWatch,
  LinkOptions,
  SearchOptions,
  SearchResult,
  WalkOptions,
  WalkResult,
  WatchOptions,
} from '../client/backend.ts';
import { checkedParams } from '../client/checked-params.ts';
import { blocksOf, bytesOf, textOf } from '../client/files/file-content.ts';
import { WatchQueue } from '../client/files/watch-queue.ts';
import { FILE_BLOCK_BYTES } from '../client/limits.ts';
import type { FileContent, FileSystem, OpenMode } from '../files/file-system.ts';
import { WATCH_DEFAULT_DEBOUNCE_MS } from '../files/limits.ts';
import { type NativePath, textOfName } from '../files/native-path.ts';
import { type Access, PathOrder } from '../files/path-order.ts';
import { pathFromUri, uriFromPath } from '../files/path-uri.ts';
import type { ContentSearch } from '../files/search/content-search.ts';
import type { ConnectionWatches } from '../files/watch/connection-watches.ts';
import { MAX_TIMER_MS } from '../process/limits.ts';
import { LazySpawner } from '../process/spawn/lazy-spawner.ts';
import { LocalConfinement } from './local-confinement.ts';
import { closedError, locally } from './local-errors.ts';
import { SerialFile } from './serial-file.ts';

/** The files of this machine, with the rules and the limits of a server. What few callers use is loaded when they do. */
export class LocalExecutorFileSystem implements ExecutorFileSystem {
  readonly #confinement: LocalConfinement;
  readonly #order = new PathOrder();
  readonly #queues = new Map<string, WatchQueue>();
  #search: Promise<ContentSearch> | null = null;
  #watches: Promise<ConnectionWatches> | null = null;
  #nextWatch = 1;
  #closed = false;

  constructor(confinement = new LocalConfinement(new LazySpawner(true))) {
    this.#confinement = confinement;
  }

  async canonicalize(path: string, options: FileOptions = {}): Promise<string> {
    return this.#run('read', [path], options, async ({ files, paths: [native] }) =>
      uriFromPath(await files.canonicalize(native)),
    );
  }

  async readFile(path: string, options: LinkOptions = {}): Promise<Uint8Array> {
    return this.#run('read', [path], options, async ({ files, paths: [native] }) =>
      wholeContent(await files.readFile(native, links(options))),
    );
  }

  async readFileText(path: string, options: LinkOptions = {}): Promise<string> {
    return textOf(await this.readFile(path, options), path);
  }

  async *readFileStream(path: string, options: FileOptions = {}): AsyncGenerator<Uint8Array, void> {
    const file = await this.#open(path, 'read', options);
    try {
      for (let offset = 0, eof = false; !eof; ) {
        const block = await this.#run('read', [path], options, () => file.read(offset, FILE_BLOCK_BYTES));
        if (block.length > 0) yield block;
        offset += block.length;
        eof = block.length < FILE_BLOCK_BYTES;
      }
    } finally {
      await file.discard();
    }
  }

  async writeFile(path: string, bytes: Uint8Array | string, options: LinkOptions = {}): Promise<void> {
    // The caller may use its buffer again before it is written.
    const content = Uint8Array.from(bytesOf(bytes));
    await this.#run('write', [path], options, ({ files, paths: [native], unwanted: signal, release }) =>
      files.writeFile(native, content, links(options), { signal, onWait: release }),
    );
  }

  async createDirectory(
    path: string,
    options: LinkOptions & { readonly recursive?: boolean } = {},
  ): Promise<void> {
    const { recursive = true } = options;
    await this.#run(recursive ? 'make' : 'write', [path], options, ({ files, paths: [native] }) =>
      files.createDirectory(native, { ...links(options), recursive }),
    );
  }

  async getMetadata(path: string, options: LinkOptions = {}): Promise<FileMetadata> {
    return this.#run('read', [path], options, ({ files, paths: [native] }) =>
      files.getMetadata(native, links(options)),
    );
  }

  async readDirectory(path: string, options: FileOptions = {}): Promise<readonly DirectoryEntry[]> {
    return this.#run('read', [path], options, async ({ files, paths: [native] }) => {
      const entries = await files.readDirectory(native);
      return entries.map(({ name, isDirectory, isFile }) => ({
        fileName: textOfName(name),
        isDirectory,
        isFile,
      }));
    });
  }

  async walk(path: string, walk: WalkOptions, options: FileOptions = {}): Promise<WalkResult> {
    const { options: limits } = checkedParams('fs/walk', { path, options: walk });
    return this.#run('read', [path], options, async ({ files, paths: [native], unwanted }) => {
      const { entries, errors, truncated } = await files.walk(native, limits, unwanted);
      return {
        entries: entries.map(({ uri, kind }) => ({ path: uri, kind })),
        errors: errors.map(({ uri, message }) => ({ path: uri, message })),
        truncated,
      };
    });
  }

  async remove(
    path: string,
    options: LinkOptions & { readonly recursive?: boolean; readonly force?: boolean } = {},
  ): Promise<void> {
    const { recursive = true, force = true } = options;
    await this.#run('write', [path], options, ({ files, paths: [native] }) =>
      files.remove(native, { ...links(options), recursive, force }),
    );
  }

  async copy(
    source: string,
    destination: string,
    options: FileOptions & { readonly recursive: boolean },
  ): Promise<void> {
    const { recursive } = options;
    await this.#run('write', [source, destination], options, ({ files, paths: [from, to] }) =>
      files.copy(from, to, { recursive }),
    );
  }

  async rename(source: string, destination: string, options: FileOptions = {}): Promise<void> {
    await this.#run('write', [source, destination], options, ({ files, paths: [from, to] }) =>
      files.rename(from, to),
    );
  }

  async search(path: string, pattern: string, options: SearchOptions = {}): Promise<SearchResult> {
    const { signal, ...query } = options;
    const checked = checkedParams('fs/search', { path, pattern, ...query });
    const { sandbox } = checked;
    return this.#run('read', [path], { signal, sandbox }, async ({ paths: [native], unwanted }) => {
      this.#search ??= loadSearch();
      const engines = await this.#search;
      const search = this.#confinement.search(sandbox) ?? engines.search.bind(engines);
      const found = await search({ ...checked, path: native }, unwanted);
      return {
        ...found,
        matches: found.matches.map((match) => ({ ...match, path: uriFromPath(match.path) })),
      };
    });
  }

  async watch(path: string, options: WatchOptions = {}): Promise<FileWatch> {
    const { signal, timeoutMs, ...how } = options;
    const watchId = `watch-${this.#nextWatch++}`;
    const { recursive, exclude, debounceMs, sandbox } = checkedParams('fs/watch', { watchId, path, ...how });
    return locally(`the watch of ${path}`, { signal, timeoutMs }, async (unwanted) => {
      this.#assertOpen();
      this.#confinement.requireAllReadable(sandbox, 'fs/watch');
      const native = pathFromUri(path);
      this.#watches ??= this.#loadWatches();
      const watches = await this.#watches;
      this.#assertOpen();
      // Events of the file system do not keep the process alive, but somebody who waits for them means to.
      const alive = setInterval(() => {}, MAX_TIMER_MS);
      const queue = new WatchQueue(async () => {
        clearInterval(alive);
        this.#queues.delete(watchId);
        watches.unwatch(watchId);
      });
      this.#queues.set(watchId, queue);
      try {
        await watches.watch(watchId, native, {
          recursive: recursive ?? true,
          exclude: exclude ?? [],
          debounceMs: debounceMs ?? WATCH_DEFAULT_DEBOUNCE_MS,
        });
        if (unwanted.aborted) await queue.close();
        return queue;
      } catch (error) {
        await queue.close();
        throw error;
      }
    });
  }

  async replaceFile(
    path: string,
    content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    options: FileOptions & { readonly atomic?: boolean } = {},
  ): Promise<void> {
    const mode = (options.atomic ?? true) ? 'atomicReplace' : 'replace';
    const file = await this.#open(path, mode, options);
    try {
      let offset = 0;
      for await (const block of blocksOf(content, options.signal)) {
        await this.#run('write', [path], options, () => file.write(offset, block));
        offset += block.length;
      }
    } catch (error) {
      await file.discard();
      throw error;
    }
    await this.#run('write', [path], options, () => file.close());
  }

  /** Resolves when every change that is under way now is done; null when there is none. */
  changesDone(): Promise<void> | null {
    return this.#order.changesDone();
  }

  /** Does something with files at a time when everything that changes them and was asked for before is done. */
  async whileReading<T>(
    paths: readonly string[],
    options: CallOptions,
    work: (unwanted: AbortSignal) => Promise<T>,
  ): Promise<T> {
    return this.#run('read', paths, options, ({ unwanted }) => work(unwanted));
  }

  /** Ends all watches. Nothing can be done with the files afterwards; what is under way comes to its end. */
  async dispose(): Promise<void> {
    this.#closed = true;
    for (const queue of [...this.#queues.values()]) queue.fail(closedError());
  }

  /** A file that is open too late for the caller is not left open. */
  async #open(path: string, mode: OpenMode, options: FileOptions): Promise<SerialFile> {
    const access = mode === 'read' ? 'read' : 'write';
    return this.#run(access, [path], options, async ({ files, paths: [native], unwanted }) => {
      const file = new SerialFile(await files.open(native, mode));
      if (unwanted.aborted) await file.discard();
      return file;
    });
  }

  /** Runs an operation on paths when those before it on the same paths are done. */
  async #run<const Uris extends readonly string[], T>(
    access: Access,
    uris: Uris,
    options: FileOptions,
    work: (operation: Operation<Uris>) => Promise<T>,
  ): Promise<T> {
    const { signal, timeoutMs } = options;
    return locally(`the operation on ${uris[0] ?? 'files'}`, { signal, timeoutMs }, async (unwanted) => {
      this.#assertOpen();
      const files = this.#confinement.files(options.sandbox, access === 'read' ? 'read' : 'write');
      const paths = uris.map(pathFromUri) as NativePaths<Uris>;
      return this.#order.run(
        paths,
        access,
        () => {},
        (release) => {
          // What nobody waits for any more is not begun.
          unwanted.throwIfAborted();
          return work({ files, paths, unwanted, release });
        },
      );
    });
  }

  #assertOpen(): void {
    if (this.#closed) throw closedError();
  }

  async #loadWatches(): Promise<ConnectionWatches> {
    const { ConnectionWatches } = await import('../files/watch/connection-watches.ts');
    return new ConnectionWatches({
      ready: () => true,
      deliver: (watchId, { changes, overflow }) => {
        const told = changes.map(({ path, kind }) => ({ path: uriFromPath(path), kind }));
        this.#queues.get(watchId)?.push({ changes: told, overflow });
      },
    });
  }
}

/** What an operation works with. */
interface Operation<Uris extends readonly string[]> {
  /** The files that its sandbox leaves. */
  readonly files: FileSystem;
  readonly paths: NativePaths<Uris>;
  /** Aborted when the result is no longer wanted. */
  readonly unwanted: AbortSignal;
  /** Lets those go on that wait for it. */
  readonly release: () => void;
}

/** One native path for each URI. */
type NativePaths<Uris extends readonly string[]> = {
  readonly [Index in keyof Uris]: NativePath;
} & readonly NativePath[];

function links({ followSymlinks = true }: LinkOptions): { readonly followSymlinks: boolean } {
  return { followSymlinks };
}

/** Reads to the end, whatever the size says: files of the kernel have none, and others may grow. */
async function wholeContent(content: FileContent): Promise<Uint8Array> {
  try {
    const parts: Buffer[] = [];
    for (let room = content.size + 1; ; room = FILE_BLOCK_BYTES) {
      const part = Buffer.allocUnsafeSlow(room);
      const length = await content.read(part);
      parts.push(part.subarray(0, length));
      if (length < room) return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    }
  } finally {
    await content.close();
  }
}

async function loadSearch(): Promise<ContentSearch> {
  const { ContentSearch } = await import('../files/search/content-search.ts');
  return new ContentSearch(process.env.PATH ?? '');
}
