import type { NewAttributes, ReplacementContent } from '../../backend.ts';
import { ClientError } from '../../errors.ts';
import { toNativePath } from '../../paths.ts';
import { unescapeBytes } from '../escapes.ts';
import { errnoOf, failedWith, withPath } from '../file-errors.ts';
import type { Files } from '../files.ts';
import { parentUri } from '../files.ts';
import { attributesOf, isEntryName, linksIn, listTree } from '../list-tree.ts';
import { FileChecks } from './file-checks.ts';
import { joined } from './local-side.ts';
import { RemoteReplacer } from './remote-replacer.ts';
import type { ContentFrom, FileCheck, SourceItem, TransferSink, TransferSource } from './sides.ts';
import type { Transfer } from './transfer.ts';
import { walkWithoutAttributes } from './walk-without-attributes.ts';

/** A file or tree of an executor. */
export class RemoteSource implements TransferSource {
  readonly isLocal = false;
  readonly #transfer: Transfer;
  readonly #files: Files;
  readonly #checks: FileChecks;
  #uri: string;

  constructor(transfer: Transfer, files: Files, uri: string) {
    this.#transfer = transfer;
    this.#files = files;
    this.#uri = uri;
    this.#checks = new FileChecks(files.fileSystem, transfer.call);
  }

  async top(): Promise<SourceItem> {
    const { fileSystem } = this.#files;
    const { call } = this.#transfer;
    const uri = this.#uri;
    return withPath('download', uri, async () => {
      const { isDirectory, isFile, isSymlink, size, modifiedAtMs } = await fileSystem.getMetadata(uri, call);
      // A link at the end is followed, as for a file. A listing would not enter it.
      if (isSymlink && isDirectory) this.#uri = await fileSystem.canonicalize(uri, call);
      const real = isSymlink && isFile ? await fileSystem.canonicalize(uri, call) : this.#uri;
      const mode = await attributesOf(fileSystem, real, call).then(
        (attributes) => attributes.mode & 0o777,
        (error: unknown) => {
          if (failedWith(error, 'unsupported')) return null;
          throw error;
        },
      );
      return {
        relative: '',
        shown: toNativePath(uri),
        kind: isDirectory ? 'directory' : isFile ? 'file' : 'other',
        size,
        mode,
        modifiedAtMs,
        target: null,
      };
    });
  }

  async *below(onError: (shown: string, error: unknown) => void): AsyncGenerator<SourceItem, void> {
    const { fileSystem } = this.#files;
    const { call } = this.#transfer;
    const report = (error: ClientError, path: string) => onError(path, error);
    const start = this.#uri.endsWith('/') ? this.#uri : `${this.#uri}/`;
    try {
      for await (const entry of listTree(fileSystem, this.#uri, { ...call, onError: report })) {
        const relative = checkedRelative(entry.uri, start);
        const { path, kind, size, modifiedAtMs, encodedTarget } = entry;
        // A server must not be able to create a set-user-ID file.
        const mode = entry.mode & 0o777;
        yield { relative, shown: path, kind, size, mode, modifiedAtMs, target: encodedTarget };
      }
    } catch (error) {
      // Nothing was listed yet.
      if (!failedWith(error, 'unsupported')) throw error;
      for await (const { uri, kind } of walkWithoutAttributes(this.#transfer, fileSystem, this.#uri)) {
        const relative = checkedRelative(uri, start);
        const size = kind === 'file' ? (await fileSystem.getMetadata(uri, call)).size : 0;
        yield {
          relative,
          shown: toNativePath(uri),
          kind,
          size,
          mode: null,
          modifiedAtMs: null,
          target: null,
        };
      }
    }
  }

  readWhole(item: SourceItem): Promise<Uint8Array> {
    const uri = this.#uriOf(item);
    return withPath('download', uri, () => this.#files.fileSystem.readFile(uri, this.#transfer.call));
  }

  async *read(item: SourceItem, offset: number): AsyncGenerator<Uint8Array, void> {
    const uri = this.#uriOf(item);
    const blocks = this.#files.fileSystem
      .readFileStream(uri, { ...this.#transfer.call, offset })
      [Symbol.asyncIterator]();
    try {
      for (;;) {
        const { done, value } = await withPath('download', uri, () => blocks.next());
        if (done === true) return;
        yield value;
      }
    } finally {
      await blocks.return?.();
    }
  }

  check(item: SourceItem): Promise<FileCheck> {
    return this.#checks.check(this.#uriOf(item));
  }

  async isUnchanged(item: SourceItem): Promise<boolean> {
    const { size, modifiedAtMs } = await this.#files.fileSystem.getMetadata(
      this.#uriOf(item),
      this.#transfer.call,
    );
    return size === item.size && modifiedAtMs === item.modifiedAtMs;
  }

  #uriOf({ relative }: SourceItem): string {
    return relative === '' ? this.#uri : uriBelow(this.#uri, relative);
  }
}

/** A path of an executor to which files are transferred. */
export class RemoteSink implements TransferSink {
  readonly isLocal = false;
  readonly #transfer: Transfer;
  readonly #files: Files;
  readonly #uri: string;
  readonly #checks: FileChecks;
  readonly #replacer: RemoteReplacer;
  /** The names of the links in directories that existed, percent-decoded; null where they cannot be listed. */
  readonly #links = new Map<string, ReadonlySet<string> | null>();

  constructor(transfer: Transfer, files: Files, uri: string) {
    this.#transfer = transfer;
    this.#files = files;
    this.#uri = uri;
    this.#checks = new FileChecks(files.fileSystem, transfer.call);
    this.#replacer = new RemoteReplacer(transfer, files);
  }

  shown(relative: string): string {
    return toNativePath(this.#uriOf(relative));
  }

  async makeParent(): Promise<void> {
    const { fileSystem } = this.#files;
    const { call } = this.#transfer;
    const parent = parentUri(this.#uri);
    const isMissing = await fileSystem.getMetadata(parent, call).then(
      () => false,
      (error: unknown) => failedWith(error, 'notFound'),
    );
    if (!isMissing) return;
    await withPath('create the directory', parent, () =>
      fileSystem.createDirectory(parent, { ...call, recursive: true }),
    );
  }

  async makeDirectory(relative: string, mode: number | null): Promise<boolean> {
    const uri = this.#uriOf(relative);
    const { fileSystem } = this.#files;
    const { call } = this.#transfer;
    return withPath('create the directory', uri, async () => {
      const isNew = await this.#create(uri, relative);
      if (isNew && mode !== null)
        await this.#attempt(() => fileSystem.setAttributes(uri, { mode: mode | 0o700 }, call));
      return isNew;
    });
  }

  /** A link in the place of a directory is replaced, because it may lead out of the target. The target itself may be a link. */
  async #create(uri: string, relative: string): Promise<boolean> {
    const { fileSystem } = this.#files;
    const { call } = this.#transfer;
    for (let isFirst = true; ; isFirst = false) {
      try {
        await fileSystem.createDirectory(uri, { ...call, recursive: false });
        return true;
      } catch (error) {
        if (errnoOf(error) !== EEXIST) throw error;
        const found = await fileSystem.getMetadata(uri, call).catch((reason: unknown) => {
          // A link that leads nowhere.
          if (failedWith(reason, 'notFound')) return null;
          throw reason;
        });
        const isLink = found === null || found.isSymlink;
        if (found?.isDirectory && (!isLink || relative === '')) {
          this.#links.set(relative, await this.#linksIn(uri));
          return false;
        }
        if (!isLink || !isFirst || relative === '') throw error;
        await fileSystem.remove(uri, { ...call, recursive: false, force: true });
      }
    }
  }

  async #linksIn(uri: string): Promise<ReadonlySet<string> | null> {
    try {
      const links = await linksIn(this.#files.fileSystem, uri, this.#transfer.call);
      return links && new Set(links.map(unescaped));
    } catch (error) {
      // It may be too large to list, or be writable only.
      if (failedWith(error, 'permissionDenied', 'server')) return null;
      throw error;
    }
  }

  /**
   * Removes a link in the place of a file, because an executor writes through it and it may lead out of the target. A program that puts
   * a link there after that is not noticed.
   */
  async #removeLink(uri: string, relative: string): Promise<void> {
    if (relative === '') return;
    const end = relative.lastIndexOf('/');
    const links = this.#links.get(relative.slice(0, Math.max(0, end)));
    // A directory that this transfer has created.
    if (links === undefined) return;
    const { fileSystem } = this.#files;
    const { call } = this.#transfer;
    const isLink =
      links?.has(unescaped(relative.slice(end + 1))) ??
      (await fileSystem.getMetadata(uri, call).then(
        ({ isSymlink }) => isSymlink,
        (error: unknown) => failedWith(error, 'notFound'),
      ));
    if (isLink) await fileSystem.remove(uri, { ...call, recursive: false, force: true });
  }

  async putWhole(relative: string, bytes: Uint8Array, attributes: NewAttributes): Promise<void> {
    const uri = this.#uriOf(relative);
    await withPath('upload to', uri, async () => {
      await this.#removeLink(uri, relative);
      await this.#replacer.replace(uri, () => [bytes], attributes, undefined);
    });
  }

  async putLarge(
    relative: string,
    contentFrom: ContentFrom,
    attributes: NewAttributes,
    resumeKey: string | undefined,
  ): Promise<void> {
    const uri = this.#uriOf(relative);
    const { fileSystem } = this.#files;
    const content = (): ReplacementContent => (part) => {
      partPath = part?.path ?? null;
      return contentFrom(
        part === null
          ? null
          : {
              shown: toNativePath(part.path),
              size: part.size,
              blocks: () => null,
              check: () => this.#checks.check(part.path),
            },
      );
    };
    let partPath: string | null = null;
    await withPath('upload to', uri, async () => {
      await this.#removeLink(uri, relative);
      await this.#replacer.replace(uri, content, attributes, resumeKey);
    }).catch(async (error: unknown) => {
      // What is there is of no use.
      if (partPath !== null && failedWith(error, 'invalidData'))
        await fileSystem.remove(partPath, { ...this.#transfer.call, recursive: false }).catch(() => {});
      throw error;
    });
  }

  async putLink(relative: string, target: string, { modifiedAtMs }: NewAttributes): Promise<void> {
    const uri = this.#uriOf(relative);
    const { fileSystem } = this.#files;
    const { call } = this.#transfer;
    await withPath('create the link', uri, async () => {
      await fileSystem.createLink(uri, target, { ...call, replace: true });
      if (modifiedAtMs !== undefined) await fileSystem.setAttributes(uri, { modifiedAtMs }, call);
    });
  }

  async setAttributes(relative: string, attributes: NewAttributes): Promise<void> {
    const uri = this.#uriOf(relative);
    await withPath('set the attributes of', uri, () =>
      this.#attempt(() => this.#files.fileSystem.setAttributes(uri, attributes, this.#transfer.call)),
    );
  }

  check(relative: string): Promise<FileCheck> {
    return this.#checks.check(this.#uriOf(relative));
  }

  #uriOf(relative: string): string {
    return relative === '' ? this.#uri : uriBelow(this.#uri, relative);
  }

  /** Executors that cannot set attributes keep their own. */
  async #attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!failedWith(error, 'unsupported')) throw error;
    }
  }
}

function unescaped(name: string): string {
  return Buffer.from(unescapeBytes(name)).toString('latin1');
}

function uriBelow(top: string, relative: string): string {
  return joined(top.replace(/\/$/, ''), relative);
}

/** The path of an entry below the top. A server must not be able to choose a place outside the target. */
function checkedRelative(uri: string, start: string): string {
  const relative = uri.startsWith(start) ? uri.slice(start.length) : '';
  if (relative !== '' && relative.split('/').every(isEntryName)) return relative;
  throw new ClientError(
    'protocol',
    `invalid message from the server: ${uri} is not an entry of ${start.slice(0, -1)}`,
  );
}

const EEXIST = 17;
