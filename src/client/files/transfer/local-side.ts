import { constants, type Stats } from 'node:fs';
import {
  chmod,
  type FileHandle,
  lstat,
  lutimes,
  mkdir,
  open,
  readlink,
  realpath,
  rename,
  stat,
  symlink,
  unlink,
  utimes,
} from 'node:fs/promises';
import type { NewAttributes } from '../../backend.ts';
import { ClientError } from '../../errors.ts';
import { escapeBytes, unescapeBytes } from '../escapes.ts';
import { failedWith } from '../file-errors.ts';
import {
  childOf,
  type LocalPath,
  localBlocks,
  localNames,
  onLocal,
  openLocal,
  parentOf,
} from './local-files.ts';
import { LocalPart, withTemporary } from './local-part.ts';
import type { ContentFrom, SourceItem, TransferSink, TransferSource } from './sides.ts';
import { changedWhileRead } from './transfer.ts';

/** A file or tree of this machine. */
export class LocalSource implements TransferSource {
  readonly isLocal = true;
  readonly #top: LocalPath;
  /** The version of each file that was read. A file that changed while it was read has none. */
  readonly #versions = new WeakMap<SourceItem, string>();

  constructor(top: LocalPath) {
    this.#top = top;
  }

  async top(): Promise<SourceItem> {
    return itemOf('', this.#top, await onLocal('read', this.#top, () => stat(this.#top.bytes)));
  }

  async *below(onError: (shown: string, error: unknown) => void): AsyncGenerator<SourceItem, void> {
    const pending = [{ relative: '', path: this.#top }];
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      const { relative: parent, path: directory } = next;
      try {
        for await (const name of localNames(directory)) {
          const path = childOf(directory, name);
          const relative = joined(parent, escapeBytes(name));
          const item = await itemAt(relative, path);
          if (item.kind === 'directory') pending.push({ relative, path });
          yield item;
        }
      } catch (error) {
        onError(directory.text, error);
      }
    }
  }

  async readWhole(item: SourceItem): Promise<Uint8Array> {
    const { path, file } = await this.#open(item);
    try {
      return await onLocal('read', path, async () => {
        const version = await versionOf(file);
        this.#versions.set(item, version);
        const bytes = await file.readFile();
        if ((await versionOf(file)) !== version) this.#versions.delete(item);
        return bytes;
      });
    } finally {
      await file.close();
    }
  }

  async *read(item: SourceItem, offset: number): AsyncGenerator<Uint8Array, void> {
    const { path, file } = await this.#open(item);
    try {
      const version = await onLocal('read', path, () => versionOf(file));
      if (offset === 0) this.#versions.set(item, version);
      else if (this.#versions.get(item) !== version) this.#versions.delete(item);
      yield* localBlocks(path, file, offset);
      if ((await onLocal('read', path, () => versionOf(file))) !== version) this.#versions.delete(item);
    } finally {
      await file.close();
    }
  }

  check(): null {
    return null;
  }

  async isUnchanged(item: SourceItem): Promise<boolean> {
    return this.#versions.has(item);
  }

  /** A link that replaced the file meanwhile is not followed, and opening a FIFO does not wait for its writer. */
  async #open({ relative, target }: SourceItem): Promise<{ path: LocalPath; file: FileHandle }> {
    const path = below(this.#top, relative);
    const links = relative === '' || target !== null ? 0 : constants.O_NOFOLLOW;
    const file = await openLocal('read', path, constants.O_RDONLY | constants.O_NONBLOCK | links);
    // A FIFO that replaced the file would look like an empty one.
    const isFile = await onLocal('read', path, async () => (await file.stat()).isFile()).catch(() => false);
    if (isFile) return { path, file };
    await file.close();
    throw changedWhileRead(path.text);
  }
}

/** A path of this machine to which files are transferred. */
export class LocalSink implements TransferSink {
  readonly isLocal = true;
  readonly #top: LocalPath;
  readonly #durable: boolean;

  constructor(top: LocalPath, durable: boolean) {
    this.#top = top;
    this.#durable = durable;
  }

  shown(relative: string): string {
    return below(this.#top, relative).text;
  }

  async makeParent(): Promise<void> {
    const parent = parentOf(this.#top);
    await onLocal('create', parent, () => mkdir(parent.bytes, { recursive: true }));
  }

  async makeDirectory(relative: string, mode: number | null): Promise<boolean> {
    const path = below(this.#top, relative);
    const isNew = await onLocal('create', path, () => this.#create(path, relative, mode));
    // The mask of this process does not apply to a mode that is kept.
    if (isNew && mode !== null) await onLocal('create', path, () => chmod(path.bytes, mode | 0o700));
    return isNew;
  }

  /** A link in the place of a directory is replaced, because it may lead out of the target. The target itself may be a link. */
  async #create(path: LocalPath, relative: string, mode: number | null): Promise<boolean> {
    for (let isFirst = true; ; isFirst = false) {
      try {
        await mkdir(path.bytes, mode === null ? 0o777 : mode | 0o700);
        return true;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
        const existing = await (relative === '' ? stat : lstat)(path.bytes).catch(() => null);
        if (existing?.isDirectory()) return false;
        if (!isFirst || !existing?.isSymbolicLink()) throw error;
        await unlink(path.bytes);
      }
    }
  }

  async putWhole(relative: string, bytes: Uint8Array, attributes: NewAttributes): Promise<void> {
    const target = await targetOf(below(this.#top, relative), relative === '');
    await withTemporary(target.real, async (temporary) => {
      const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
      const mode = firstMode(target.old, attributes);
      const file = await onLocal('create', target.real, () => open(temporary.bytes, flags, mode));
      try {
        await onLocal('write', target.real, () => file.writeFile(bytes));
        await finish(file, target.real, target.old, attributes, this.#durable);
      } finally {
        await file.close();
      }
      await onLocal('replace', target.real, () => rename(temporary.bytes, target.real.bytes));
    });
  }

  async putLarge(
    relative: string,
    contentFrom: ContentFrom,
    attributes: NewAttributes,
    resumeKey: string | undefined,
  ): Promise<void> {
    const target = await targetOf(below(this.#top, relative), relative === '');
    const part = await LocalPart.open(target.real, resumeKey);
    try {
      const { offset, content } = await contentFrom(resumeKey === undefined ? null : part.unfinished());
      await part.write(offset, content);
      await finish(part.file, target.real, target.old, attributes, this.#durable);
      await onLocal('replace', target.real, () => rename(part.path.bytes, target.real.bytes));
    } catch (error) {
      // A full disk must not stay full, and content that turned out to be wrong is of no use.
      if (resumeKey === undefined || failedWith(error, 'storage', 'invalidData')) await part.remove();
      throw error;
    } finally {
      await part.close();
    }
  }

  async putLink(relative: string, target: string, { modifiedAtMs }: NewAttributes): Promise<void> {
    const path = below(this.#top, relative);
    refuseToReplace(path, await lstat(path.bytes).catch(() => null));
    await withTemporary(path, async (temporary) => {
      await onLocal('create', path, () => symlink(Buffer.from(unescapeBytes(target)), temporary.bytes));
      if (modifiedAtMs !== undefined) {
        await onLocal('create', path, () => lutimes(temporary.bytes, nowSeconds(), seconds(modifiedAtMs)));
      }
      await onLocal('replace', path, () => rename(temporary.bytes, path.bytes));
    });
  }

  async setAttributes(relative: string, { mode, modifiedAtMs }: NewAttributes): Promise<void> {
    const path = below(this.#top, relative);
    await onLocal('set the attributes of', path, async () => {
      if (relative !== '' && (await lstat(path.bytes)).isSymbolicLink()) throw isLink();
      if (modifiedAtMs !== undefined) {
        const set = relative === '' ? utimes : lutimes;
        await set(path.bytes, nowSeconds(), seconds(modifiedAtMs));
      }
      if (mode !== undefined) await chmod(path.bytes, mode);
    });
  }

  check(): null {
    return null;
  }
}

/** Every write changes it. So do other changes of the inode: programs can set the modification time back, but not the change time. */
async function versionOf(file: FileHandle): Promise<string> {
  const { dev, ino, size, mtimeNs, ctimeNs } = await file.stat({ bigint: true });
  return [dev, ino, size, mtimeNs, ctimeNs].join(' ');
}

function below(top: LocalPath, relative: string): LocalPath {
  return relative === '' ? top : childOf(top, unescapeBytes(relative));
}

export function joined(parent: string, name: string): string {
  return parent === '' ? name : `${parent}/${name}`;
}

async function itemAt(relative: string, path: LocalPath): Promise<SourceItem> {
  const item = itemOf(relative, path, await onLocal('read', path, () => lstat(path.bytes)));
  if (item.kind !== 'symlink') return item;
  const [target, followed] = await Promise.all([
    onLocal('read', path, () => readlink(path.bytes, { encoding: 'buffer' })),
    stat(path.bytes).catch(() => null),
  ]);
  const targetKind =
    followed === null
      ? undefined
      : followed.isFile()
        ? 'file'
        : followed.isDirectory()
          ? 'directory'
          : 'other';
  const size = followed?.isFile() ? followed.size : item.size;
  return { ...item, size, target: escapeBytes(target), targetKind };
}

function itemOf(relative: string, path: LocalPath, stats: Stats): SourceItem {
  return {
    relative,
    shown: path.text,
    kind: stats.isFile()
      ? 'file'
      : stats.isDirectory()
        ? 'directory'
        : stats.isSymbolicLink()
          ? 'symlink'
          : 'other',
    size: stats.size,
    mode: stats.mode & 0o777,
    modifiedAtMs: Math.floor(stats.mtimeMs),
    target: null,
  };
}

interface LocalTarget {
  /** Where the file is written. */
  readonly real: LocalPath;
  readonly old: Stats | null;
}

/** Follows a link that the user named, which stays. Any other link is replaced, because it may lead out of the target. */
async function targetOf(path: LocalPath, isNamed: boolean): Promise<LocalTarget> {
  // Not by the real path: a link in /proc/self/fd to a pipe has none.
  const old = await (isNamed ? stat : lstat)(path.bytes).catch(() => null);
  refuseToReplace(path, old);
  const bytes = isNamed
    ? await realpath(path.bytes, { encoding: 'buffer' }).catch(() => path.bytes)
    : path.bytes;
  return { real: { bytes, text: bytes.toString() }, old: old?.isFile() ? old : null };
}

/** A rename would replace a device, a FIFO or a socket; as root even /dev/null. */
function refuseToReplace(path: LocalPath, old: Stats | null): void {
  if (old === null || old.isFile() || old.isSymbolicLink()) return;
  const [reason, code, hint] = old.isDirectory()
    ? ['it is a directory', 'EISDIR', 'name the file in it']
    : ['it is not a regular file', 'EEXIST', 'choose another path'];
  throw new ClientError('storage', `cannot write ${path.text} of this machine: ${reason}`, {
    hint,
    cause: Object.assign(new Error(reason), { code }),
  });
}

function isLink(): Error {
  return Object.assign(new Error('it is a symbolic link'), { code: 'ELOOP' });
}

function firstMode(old: Stats | null, { mode }: NewAttributes): number {
  return old === null && mode === undefined ? 0o666 : 0o600;
}

/** Gives the new file its attributes, or the mode of the old one, before it gets its name. */
async function finish(
  file: FileHandle,
  path: LocalPath,
  old: Stats | null,
  attributes: NewAttributes,
  durable: boolean,
): Promise<void> {
  const mode = attributes.mode ?? (old === null ? undefined : old.mode & 0o777);
  const { modifiedAtMs } = attributes;
  await onLocal('write', path, async () => {
    if (mode !== undefined) await file.chmod(mode);
    if (modifiedAtMs !== undefined) await file.utimes(nowSeconds(), seconds(modifiedAtMs));
    if (durable) await file.sync();
  });
}

function nowSeconds(): number {
  return Date.now() / 1000;
}

/** Floating-point seconds cannot hold most milliseconds exactly. One microsecond more keeps the system from rounding down. */
function seconds(ms: number): number | Date {
  // Node takes negative numbers for the present time.
  if (ms < 0) return new Date(ms);
  return ms % 1000 === 0 ? ms / 1000 : (ms + 0.001) / 1000;
}
