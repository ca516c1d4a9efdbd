import { createHash, type Hash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { forEachBounded } from '../../../base/for-each-bounded.ts';
import { Semaphore } from '../../../base/semaphore.ts';
import type { NewAttributes } from '../../backend.ts';
import { ClientError } from '../../errors.ts';
import {
  HASH_TURN_BYTES,
  RESUME_MIN_BYTES,
  TRANSFER_CONCURRENCY,
  TRANSFER_LARGE_FILES,
  TRANSFER_WHOLE_BYTES,
} from '../../limits.ts';
import { failedWith } from '../file-errors.ts';
import type { SourceItem, TransferSink, TransferSource, UnfinishedFile } from './sides.ts';
import { changedWhileRead, type FileProgress, type Transfer } from './transfer.ts';

/** Transfers a file, or a directory with everything in it, from a source to a sink. */
export async function copyTree(
  transfer: Transfer,
  source: TransferSource,
  sink: TransferSink,
): Promise<void> {
  const top = await source.top();
  if (top.kind === 'file') {
    // Like a write, it creates missing parent directories.
    await sink.makeParent();
    transfer.setTotals(1, top.size);
    await new TreeCopy(transfer, source, sink).file(top);
  } else if (top.kind === 'directory') {
    await sink.makeParent();
    await new TreeCopy(transfer, source, sink).tree(top);
  } else {
    const where = source.isLocal ? ' of this machine' : '';
    throw new ClientError('invalidInput', `${top.shown}${where} is neither a file nor a directory`);
  }
}

class TreeCopy {
  readonly #transfer: Transfer;
  readonly #source: TransferSource;
  readonly #sink: TransferSink;
  readonly #large = new Semaphore(TRANSFER_LARGE_FILES);
  /** Whether each directory could be created. */
  readonly #made = new Map<string, Promise<boolean>>();
  /** Directories that get their mode or time at the end, by their depth. */
  readonly #unfinished: { relative: string; attributes: NewAttributes }[][] = [];

  constructor(transfer: Transfer, source: TransferSource, sink: TransferSink) {
    this.#transfer = transfer;
    this.#source = source;
    this.#sink = sink;
  }

  async tree(top: SourceItem): Promise<void> {
    const counted = this.#transfer.reportsProgress ? this.#count() : null;
    try {
      await this.#directory(top);
      const onError = (shown: string, error: unknown) => this.#transfer.fail(shown, error);
      await forEachBounded(this.#source.below(onError), TRANSFER_CONCURRENCY, async (item) => {
        this.#transfer.throwIfAborted();
        const isMade = this.#made.get(parentOf(item.relative));
        const work = item.kind === 'directory' ? this.#below(isMade, item) : null;
        try {
          if (work !== null) await work;
          else if (await isMade) await this.#item(item);
        } catch (error) {
          this.#transfer.fail(item.shown, error);
        }
      });
      await this.#finishDirectories();
    } finally {
      counted?.abort();
    }
  }

  /** Registers the directory before its contents. */
  async #below(isParentMade: Promise<boolean> | undefined, item: SourceItem): Promise<void> {
    const making = (async () => (await isParentMade) === true && (await this.#directory(item)))();
    this.#made.set(
      item.relative,
      making.catch(() => false),
    );
    await making;
  }

  async #directory(item: SourceItem): Promise<boolean> {
    const { relative, mode } = item;
    const isNew = await this.#transfer.again(() => this.#sink.makeDirectory(relative, mode));
    this.#transfer.addDirectory();
    const { keepTimes } = this.#transfer;
    const attributes = {
      ...(mode !== null && (isNew ? (mode & 0o700) !== 0o700 : keepTimes) && { mode }),
      ...(keepTimes && item.modifiedAtMs !== null && { modifiedAtMs: item.modifiedAtMs }),
    };
    if (Object.keys(attributes).length > 0) {
      const depth = relative === '' ? 0 : relative.split('/').length;
      const same = this.#unfinished[depth] ?? [];
      same.push({ relative, attributes });
      this.#unfinished[depth] = same;
    }
    if (relative === '') this.#made.set('', Promise.resolve(true));
    return true;
  }

  /** A directory that may not be written is made so after its contents, and after the directories in it. */
  async #finishDirectories(): Promise<void> {
    for (const directories of [...this.#unfinished].reverse()) {
      await forEachBounded(directories ?? [], TRANSFER_CONCURRENCY, async ({ relative, attributes }) => {
        try {
          await this.#transfer.again(() => this.#sink.setAttributes(relative, attributes));
        } catch (error) {
          this.#transfer.fail(this.#sink.shown(relative), error);
        }
      });
    }
  }

  async #item(item: SourceItem): Promise<void> {
    if (item.kind === 'file') await this.file(item);
    else if (item.kind === 'symlink') await this.#link(item);
    else this.#transfer.skip(item.shown, 'neither a file nor a directory');
  }

  async #link(item: SourceItem): Promise<void> {
    try {
      const { modifiedAtMs } = this.#attributesOf(item);
      await this.#transfer.again(() => this.#sink.putLink(item.relative, item.target!, { modifiedAtMs }));
      this.#transfer.addLink();
    } catch (error) {
      if (failedWith(error, 'unsupported')) await this.#followLink(item);
      else if (isRefusedToToken(error))
        this.#transfer.skip(item.shown, 'a symbolic link, which the token does not allow');
      else throw error;
    }
  }

  /** The executor cannot create links, so it gets the file that a link leads to. */
  async #followLink(item: SourceItem): Promise<void> {
    if (item.targetKind !== 'file') {
      const reasons = {
        directory: 'a symbolic link to a directory',
        other: 'a symbolic link to neither a file nor a directory',
        nothing: 'a symbolic link that leads nowhere',
      };
      this.#transfer.skip(item.shown, reasons[item.targetKind ?? 'nothing']);
      return;
    }
    this.#transfer.followLink(item.shown);
    await this.file({ ...item, kind: 'file', mode: null, modifiedAtMs: null });
  }

  async file(item: SourceItem): Promise<void> {
    if (item.size <= TRANSFER_WHOLE_BYTES) {
      await this.#transfer.file(item, (progress) => this.#whole(item, progress));
      return;
    }
    await this.#large.acquire();
    try {
      await this.#transfer.file(item, (progress) => this.#inBlocks(item, progress));
    } finally {
      this.#large.release();
    }
  }

  async #whole(item: SourceItem, progress: FileProgress): Promise<void> {
    const { verifies } = this.#transfer;
    const original = verifies ? this.#source.check(item) : null;
    original?.catch(() => {});
    const bytes = await this.#source.readWhole(item);
    const content = { sha256: createHash('sha256').update(bytes).digest('hex'), bytes: bytes.length };
    await this.#transfer.compare(item.shown, content, original);
    if (verifies && this.#source.isLocal && !(await this.#source.isUnchanged(item)))
      throw changedWhileRead(item.shown);
    await this.#sink.putWhole(item.relative, bytes, this.#attributesOf(item));
    progress.start(0);
    progress.add(bytes.length);
    if (this.#transfer.verifies) {
      await this.#transfer.compare(this.#sink.shown(item.relative), content, this.#sink.check(item.relative));
    }
  }

  async #inBlocks(item: SourceItem, progress: FileProgress): Promise<void> {
    let resumed = false;
    for (const resumeKey of [this.#resumeKey(item), undefined]) {
      try {
        await this.#replace(item, resumeKey, progress, () => {
          resumed = true;
        });
        return;
      } catch (error) {
        // What was there already was not the beginning of this file. It is gone now.
        if (!resumed || resumeKey === undefined || !failedWith(error, 'invalidData')) throw error;
      }
    }
  }

  async #replace(
    item: SourceItem,
    resumeKey: string | undefined,
    progress: FileProgress,
    onResume: () => void,
  ): Promise<void> {
    const transfer = this.#transfer;
    const source = this.#source;
    let hash = createHash('sha256');
    let length = 0;
    let isCompared = false;
    const soFar = () => ({ sha256: hash.copy().digest('hex'), bytes: length });
    const content = async function* (offset: number) {
      // The source hashes its file meanwhile.
      const checking = transfer.verifies ? source.check(item) : null;
      checking?.catch(() => {});
      length = offset;
      progress.start(offset);
      for await (const block of source.read(item, offset)) {
        transfer.throwIfAborted();
        await addToHash(hash, block);
        length += block.length;
        yield block;
        progress.add(block.length);
      }
      if (!transfer.verifies) return;
      // Before the file gets its name. A file that was changed meanwhile is hashed again.
      const isSame = await source.isUnchanged(item);
      if (!isSame && source.isLocal) throw changedWhileRead(item.shown);
      await transfer.compare(item.shown, soFar(), isSame ? checking : source.check(item));
      if (offset > 0 && !transfer.hashes) throw wrongBeginning(item.shown);
    };
    const contentFrom = async (unfinished: UnfinishedFile | null) => {
      // It is called again when the executor refuses the first way to replace the file.
      hash = createHash('sha256');
      const sha256 = () => {
        isCompared = true;
        return soFar().sha256;
      };
      if (unfinished !== null) transfer.setPart(item, unfinished.shown);
      if (unfinished === null || unfinished.size === 0) return { offset: 0, content: content(0), sha256 };
      onResume();
      await this.#hashBeginning(item, unfinished, hash);
      return { offset: unfinished.size, content: content(unfinished.size), sha256 };
    };
    await this.#sink.putLarge(item.relative, contentFrom, this.#attributesOf(item), resumeKey);
    transfer.setPart(item, null);
    if (transfer.verifies && !isCompared) {
      await transfer.compare(this.#sink.shown(item.relative), soFar(), this.#sink.check(item.relative));
    }
  }

  /**
   * Hashes the part of the file that is at the sink already. If the sink is an executor, its hash is compared with that of the source.
   * If it is this machine, the hash of the whole file shows at the end whether the beginning is right.
   */
  async #hashBeginning(item: SourceItem, unfinished: UnfinishedFile, hash: Hash): Promise<void> {
    const local = unfinished.blocks();
    if (unfinished.size > item.size) throw wrongBeginning(unfinished.shown);
    const remote = unfinished.check();
    remote?.catch(() => {});
    let left = unfinished.size;
    for await (const block of local ?? this.#source.read(item, 0)) {
      const part = block.subarray(0, left);
      await addToHash(hash, part);
      left -= part.length;
      if (left === 0) break;
    }
    if (remote === null) return;
    const check = await remote;
    if (check.sha256 !== hash.copy().digest('hex')) throw wrongBeginning(unfinished.shown);
  }

  /** Identifies the content. Only with hashes can a file be put together from two transfers. */
  #resumeKey(item: SourceItem): string | undefined {
    const canCompare = this.#source.isLocal !== this.#sink.isLocal && this.#transfer.hashes;
    if (!canCompare || item.size < RESUME_MIN_BYTES || item.modifiedAtMs === null || item.mode === null)
      return undefined;
    const identity = `${item.size} ${item.modifiedAtMs} ${item.shown}`;
    return createHash('sha256').update(identity).digest('hex').slice(0, 32);
  }

  #attributesOf({ mode, modifiedAtMs }: SourceItem): NewAttributes {
    const { keepTimes } = this.#transfer;
    return {
      ...(mode !== null && { mode }),
      ...(keepTimes && modifiedAtMs !== null && { modifiedAtMs }),
    };
  }

  /** Counts what there is to do, while it is being done. */
  #count(): AbortController {
    const stop = new AbortController();
    const count = async () => {
      let files = 0;
      let bytes = 0;
      for await (const { kind, size } of this.#source.below(() => {})) {
        if (stop.signal.aborted) return;
        if (kind !== 'file') continue;
        files++;
        bytes += size;
      }
      this.#transfer.setTotals(files, bytes);
    };
    // An error of the listing is reported by the transfer itself.
    void count().catch(() => {});
    return stop;
  }
}

function parentOf(relative: string): string {
  return relative.slice(0, Math.max(0, relative.lastIndexOf('/')));
}

function wrongBeginning(shown: string): ClientError {
  return new ClientError('invalidData', `${shown} is not the beginning of the file`);
}

/** A token that is limited to a directory does not allow links. */
function isRefusedToToken(error: unknown): boolean {
  return (
    failedWith(error, 'permissionDenied') &&
    /the token does not allow fs\/createLink/.test((error as Error).message)
  );
}

/** Hashes a block. The event loop reads from the connection meanwhile, so that the server does not wait for the hash. */
async function addToHash(hash: Hash, block: Uint8Array): Promise<void> {
  for (let from = 0; from < block.length; from += HASH_TURN_BYTES) {
    if (from > 0) await setImmediate();
    hash.update(block.subarray(from, from + HASH_TURN_BYTES));
  }
}
