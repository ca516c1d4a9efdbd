import { createHash } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import {
  chmod,
  type FileHandle,
  lstat,
  lutimes,
  mkdir,
  open,
  readdir,
  readlink,
  realpath,
  rename,
  rmdir,
  symlink,
  unlink,
} from 'node:fs/promises';
import { forEachBounded } from '../../base/for-each-bounded.ts';
import { ClientError } from '../../client/errors.ts';
import { onLocal } from '../../client/files/transfer/local-files.ts';
import { sweepTemporaries, temporaryName } from '../../files/local/temporary-files.ts';
import {
  childPath,
  isWithin,
  type NativePath,
  nativePathOfBytes,
  systemPath,
} from '../../files/native-path.ts';
import { RunError } from '../failures.ts';
import type { ChangeQueue } from './change-queue.ts';
import {
  LOCAL_BLOCK_BYTES,
  LOCAL_CALLS,
  LOCAL_DIRECTORIES,
  LOCAL_HASHES,
  WATCH_DEBOUNCE_MS,
} from './limits.ts';
import { ChangedError, type Content, isSameFile, type Named, type Side } from './side.ts';
import {
  type Attributes,
  type Entry,
  type FileEntry,
  nameOf,
  parentOf,
  type Removal,
  shownPath,
} from './tree.ts';
import { watchExclusions } from './watch-exclusions.ts';

/** A directory of this machine. */
export class LocalSide implements Side {
  readonly name: string;
  readonly #signal: AbortSignal;
  /** The real path, without links, once it is known. */
  #root: NativePath;
  /** Directories that are known to be reached without a link. */
  #checked = new Set<string>();

  constructor(name: string, root: NativePath, signal: AbortSignal) {
    this.name = name;
    this.#root = root;
    this.#signal = signal;
  }

  /** The path of the root, without links. */
  async realRoot(): Promise<NativePath> {
    const real = this.#on('read', '', () => realpath(systemPath(this.#root), { encoding: 'latin1' }));
    this.#root = nativePathOfBytes(
      await real.catch((error: Error & { readonly cause?: unknown }) => {
        if (!isMissing(error.cause)) throw error;
        // The same kinds as for a directory of a server.
        const { code } = error.cause as NodeJS.ErrnoException;
        const kind = code === 'ENOTDIR' ? 'notDirectory' : 'notFound';
        throw new ClientError(kind, error.message, { cause: error.cause });
      }),
    );
    return this.#root;
  }

  async list(directories: readonly string[]): Promise<readonly (readonly Named[] | Error)[]> {
    const listings: (readonly Named[] | Error)[] = [];
    await forEachBounded(directories.entries(), LOCAL_DIRECTORIES, async ([index, directory]) => {
      listings[index] = await this.#list(directory).catch((error: Error) => error);
    });
    this.#signal.throwIfAborted();
    return listings;
  }

  async #list(directory: string): Promise<readonly Named[]> {
    this.#checked.clear();
    const names = await this.#on('list', directory, (path) => readdir(path, { encoding: 'latin1' }));
    const found: Named[] = [];
    await forEachBounded(names, LOCAL_CALLS, async (name) => {
      const entry = await this.stat(directory === '' ? name : `${directory}/${name}`);
      if (entry !== null) found.push({ name, entry });
    });
    return found;
  }

  async stat(path: string): Promise<Entry | null> {
    this.#signal.throwIfAborted();
    try {
      const stats = await lstat(this.#at(path));
      if (!stats.isSymbolicLink()) return entryOf(stats);
      return { kind: 'link', target: await readlink(this.#at(path), { encoding: 'latin1' }) };
    } catch (error) {
      if (isMissing(error)) return null;
      return this.#on('read', path, () => Promise.reject(error));
    }
  }

  async isDirectory(path: string): Promise<boolean> {
    return (await this.stat(path))?.kind === 'directory';
  }

  async readSmall(path: string, maxBytes: number): Promise<string | null> {
    return this.#withFile(path, async (file) => {
      const { size } = await file.stat();
      return size > maxBytes ? null : (await file.readFile()).toString('latin1');
    });
  }

  async *read(path: string, entry: FileEntry): AsyncGenerator<Uint8Array, void> {
    const file = await this.#open(path);
    try {
      const before = await file.stat();
      if (!isSameFile(entryOf(before), entry)) throw new ChangedError();
      const block = Buffer.allocUnsafe(Math.min(LOCAL_BLOCK_BYTES, entry.size + 1));
      for (let position = 0; ; ) {
        this.#signal.throwIfAborted();
        const { bytesRead } = await this.#on('read', path, () => file.read(block, 0, block.length, position));
        position += bytesRead;
        if (position > entry.size) throw new ChangedError();
        if (bytesRead === 0) break;
        yield block.subarray(0, bytesRead);
      }
      const after = await file.stat();
      if (!isSameFile(entryOf(after), entry) || after.mtimeMs !== before.mtimeMs) throw new ChangedError();
    } finally {
      await file.close();
    }
  }

  async hash(paths: readonly string[]): Promise<readonly (string | Error)[]> {
    const hashes: (string | Error)[] = [];
    await forEachBounded(paths.entries(), LOCAL_HASHES, async ([index, path]) => {
      hashes[index] = await this.#hashOf(path).catch((error: Error) => error);
    });
    this.#signal.throwIfAborted();
    return hashes;
  }

  async watch(ignored: readonly string[], queue: ChangeQueue): Promise<() => void> {
    const { watchTree } = await import('../../files/watch/tree-watch.ts');
    const root = this.#root;
    const options = { recursive: true, exclude: watchExclusions(ignored), debounceMs: WATCH_DEBOUNCE_MS };
    const watch = await watchTree(root, options, ({ changes, overflow }) => {
      if (overflow) queue.overflow();
      for (const { path, kind } of changes) {
        // The root itself has disappeared or is another directory.
        if (path === root || !isWithin(path, root)) queue.overflow();
        else queue.add(path.slice(root === '/' ? 1 : root.length + 1), kind === 'created');
      }
    }).catch((error: Error) => {
      throw new RunError(`cannot watch ${this.name}: ${error.message}`);
    });
    return () => watch.close();
  }

  async makeRoot(): Promise<void> {
    await this.#on('create', '', (path) => mkdir(path, { recursive: true }));
    await this.realRoot();
  }

  async makeDirectory(path: string): Promise<void> {
    await this.#checkParent(path);
    await this.#on('create', path, (at) => mkdir(at)).catch(async (error) => {
      if ((await this.stat(path))?.kind !== 'directory') throw error;
    });
  }

  async makeLink(path: string, target: string): Promise<void> {
    const temporary = await this.#temporaryFor(path);
    try {
      await this.#on('create', path, () => symlink(bytesOf(target), systemPath(temporary)));
      await this.#on('create', path, (at) => rename(systemPath(temporary), at));
    } catch (error) {
      await unlink(systemPath(temporary)).catch(() => {});
      throw error;
    }
  }

  async replaceFile(path: string, { blocks }: Content, { mode, mtimeMs }: Attributes): Promise<void> {
    const temporary = await this.#temporaryFor(path);
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
    // No other user reads the new file before it has its mode.
    const file = await this.#on('create', path, () =>
      open(systemPath(temporary), flags, mode === undefined ? 0o666 : 0o600),
    );
    try {
      try {
        for await (const block of blocks) {
          // Unlike `write`, it continues where a disk that gets full has taken only a part.
          await this.#on('write', path, () => file.writeFile(block));
        }
        if (mode !== undefined) await this.#on('write', path, () => file.chmod(mode));
        if (mtimeMs !== undefined) {
          const seconds = secondsOf(mtimeMs);
          await this.#on('write', path, () => file.utimes(seconds, seconds));
        }
      } finally {
        await file.close();
      }
      this.#signal.throwIfAborted();
      await this.#on('replace', path, (at) => rename(systemPath(temporary), at));
    } catch (error) {
      await unlink(systemPath(temporary)).catch(() => {});
      throw error;
    }
  }

  async setAttributes(path: string, { mode, mtimeMs }: Attributes): Promise<void> {
    await this.#checkParent(path);
    const entry = await this.stat(path);
    // A change of the mode would follow a link.
    if (entry?.kind === 'link') throw new ChangedError();
    if (mode !== undefined) await this.#on('change the mode of', path, (at) => chmod(at, mode));
    if (mtimeMs !== undefined) {
      const seconds = secondsOf(mtimeMs);
      await this.#on('set the time of', path, (at) => lutimes(at, seconds, seconds));
    }
  }

  async remove({ path, kind }: Removal): Promise<void> {
    await this.#checkParent(path);
    await this.#on('delete', path, async (at) => {
      try {
        await (kind === 'directory' ? rmdir(at) : unlink(at));
      } catch (error) {
        if (!isMissing(error)) throw error;
      }
    });
  }

  #at(path: string): string | Buffer {
    return systemPath(this.#pathOf(path));
  }

  #pathOf(path: string): NativePath {
    return path === '' ? this.#root : childPath(this.#root, path);
  }

  /** Runs a system call. Its error says what failed. */
  #on<T>(action: string, path: string, work: (at: string | Buffer) => Promise<T>): Promise<T> {
    const native = this.#pathOf(path);
    const local = { bytes: Buffer.from(native, 'latin1'), text: shownPath(native) };
    return onLocal(action, local, () => work(systemPath(native)));
  }

  /** Opening does not follow a link, and does not wait for the writer of a pipe. */
  #open(path: string): Promise<FileHandle> {
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    return this.#on('read', path, (at) => open(at, flags)).catch((error) => {
      if (['ENOENT', 'ELOOP', 'ENOTDIR'].includes(error.cause?.code)) throw new ChangedError();
      throw error;
    });
  }

  async #withFile<T>(path: string, use: (file: FileHandle) => Promise<T>): Promise<T> {
    const file = await this.#open(path);
    try {
      return await this.#on('read', path, () => use(file));
    } finally {
      await file.close();
    }
  }

  #hashOf(path: string): Promise<string> {
    return this.#withFile(path, async (file) => {
      const hash = createHash('sha256');
      const { size } = await file.stat();
      const block = Buffer.allocUnsafe(Math.min(LOCAL_BLOCK_BYTES, size + 1));
      for (let position = 0; ; ) {
        this.#signal.throwIfAborted();
        const { bytesRead } = await file.read(block, 0, block.length, position);
        if (bytesRead === 0) return hash.digest('hex');
        hash.update(block.subarray(0, bytesRead));
        position += bytesRead;
      }
    });
  }

  /** Nothing is written through a link: it could lead out of the tree. */
  async #checkParent(path: string): Promise<void> {
    const parent = parentOf(path);
    if (this.#checked.has(parent)) return;
    const real = await this.#on('write to', parent, (at) => realpath(at, { encoding: 'latin1' }));
    if (real !== this.#pathOf(parent)) {
      await this.#on('write to', path, () =>
        Promise.reject(Object.assign(new Error('a directory above it is a link'), { code: 'ELOOP' })),
      );
    }
    this.#checked.add(parent);
  }

  async #temporaryFor(path: string): Promise<NativePath> {
    this.#signal.throwIfAborted();
    await this.#checkParent(path);
    const parent = this.#pathOf(parentOf(path));
    await sweepTemporaries(parent);
    return childPath(parent, await temporaryName(nameOf(path)));
  }
}

/** What lstat says about anything but a link. */
function entryOf(stats: Stats): Entry {
  const mode = stats.mode & 0o777;
  if (stats.isDirectory()) return { kind: 'directory', mode };
  if (!stats.isFile()) return { kind: 'special' };
  return { kind: 'file', size: stats.size, mtimeMs: Math.floor(stats.mtimeMs), mode };
}

/** Node rounds down to nanoseconds after a multiplication that is not exact, so a little is added to stay in the same millisecond. */
function secondsOf(milliseconds: number): number {
  return (milliseconds + 0.01) / 1000;
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}

function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}
