import { FileError, refused } from './errors.ts';
import type { OpenFile } from './file-system.ts';
import { MAX_BLOCK_BYTES, MAX_FILE_HANDLES, MAX_HANDLE_ID_BYTES } from './limits.ts';
import { isAddressable, isExact } from './local/positional-io.ts';

/** Bytes of a file. `eof` only says that fewer came than were asked for. */
export interface FileBlock {
  readonly bytes: Buffer;
  readonly eof: boolean;
}

/** Where the memory for blocks comes from; it is asked when a block is about to be read. */
export interface BlockBuffers {
  take(length: number): Buffer;
}

/** What an operation waits for besides the earlier ones of its handle; null or absent is nothing. */
export type Turn = Promise<void> | null;

/**
 * The open files of one connection, by the ids its client chose. Operations on one id take effect in the order of the calls, so a
 * client may send an open, its blocks and the close without waiting for answers; different ids do not wait for one another.
 */
export class FileHandles {
  readonly #buffers: BlockBuffers | undefined;
  readonly #lanes = new Map<string, Lane>();
  /** Closes under way; none of them rejects. */
  readonly #closing = new Set<Promise<unknown>>();
  /** Files that are open, being opened or being closed. */
  #held = 0;
  #disposed = false;

  /** Blocks are read into memory of their own, or into what `buffers` gives. */
  constructor(buffers?: BlockBuffers) {
    this.#buffers = buffers;
  }

  /** Calls `open` and keeps its file under the id, unless the id is taken or there are too many. */
  async open(handleId: string, open: () => Promise<OpenFile>, after?: Turn): Promise<void> {
    checkHandleId(handleId);
    const closesBefore = [...this.#closing];
    await this.#inTurn(handleId, after, async (lane) => {
      if (lane.file !== null) throw refused(`file handle \`${handleId}\` already exists`);
      await this.#takePlace(closesBefore);
      try {
        lane.file = await open();
      } catch (error) {
        this.#held--;
        throw error;
      }
    });
  }

  /** An error of the system ends the handle; a refusal does not. */
  async readBlock(handleId: string, offset: number, length: number, after?: Turn): Promise<FileBlock> {
    checkHandleId(handleId);
    checkBlockLength('read', length);
    return await this.#inTurn(handleId, after, async (lane) => {
      try {
        const bytes = await this.#fileOf(lane, handleId).read(offset, length, this.#buffers?.take(length));
        return { bytes, eof: bytes.length < length };
      } catch (error) {
        if (isFromSystem(error)) await this.#end(lane, (file) => file.discard().catch(() => undefined));
        throw error;
      }
    });
  }

  /** The handle stays, whatever happens. */
  async writeBlock(handleId: string, offset: number, bytes: Uint8Array, after?: Turn): Promise<void> {
    checkHandleId(handleId);
    checkBlockLength('write', bytes.length);
    checkWriteRange(offset, bytes.length);
    await this.#inTurn(handleId, after, (lane) => this.#fileOf(lane, handleId).write(offset, bytes));
  }

  /** The handle is gone afterwards, also when this fails; with `discard` an atomic replacement is dropped. An id that stands for nothing is no error. */
  async close(handleId: string, after?: Turn, discard = false): Promise<void> {
    checkHandleId(handleId);
    const closed = this.#inTurn(handleId, after, (lane) =>
      this.#end(lane, (file) => (discard || this.#disposed ? file.discard() : file.close())),
    );
    const settled = closed.catch(() => undefined);
    this.#closing.add(settled);
    void settled.then(() => this.#closing.delete(settled));
    await closed;
  }

  /**
   * Discards every file, also those still being opened. What is under way is finished first; what waits its turn has no effect:
   * a replacement must not come true without the writes that were meant for it.
   */
  async dispose(): Promise<void> {
    this.#disposed = true;
    const ends = [...this.#lanes.keys()].map((handleId) =>
      this.#inTurn(handleId, null, (lane) => this.#end(lane, (file) => file.discard())),
    );
    await Promise.allSettled(ends);
  }

  async #inTurn<T>(
    handleId: string,
    after: Turn | undefined,
    operation: (lane: Lane) => Promise<T>,
  ): Promise<T> {
    let lane = this.#lanes.get(handleId);
    if (lane === undefined) {
      lane = new Lane();
      this.#lanes.set(handleId, lane);
    }
    try {
      return await lane.run(async (own) => {
        if (after) await after;
        return await operation(own);
      });
    } finally {
      if (lane.idle) this.#lanes.delete(handleId);
    }
  }

  /**
   * A client that closed a handle before may count on its place, so the decision waits for the closes that came earlier. Later
   * ones may themselves wait for this open.
   */
  async #takePlace(closesBefore: readonly Promise<unknown>[]): Promise<void> {
    if (this.#held >= MAX_FILE_HANDLES) await Promise.all(closesBefore);
    this.#checkNotDisposed();
    if (this.#held >= MAX_FILE_HANDLES) {
      throw refused(`at most ${MAX_FILE_HANDLES} file handles may be open per connection`);
    }
    this.#held++;
  }

  #fileOf(lane: Lane, handleId: string): OpenFile {
    this.#checkNotDisposed();
    if (lane.file === null) throw new FileError('notFound', `unknown file handle \`${handleId}\``);
    return lane.file;
  }

  async #end(lane: Lane, end: (file: OpenFile) => Promise<void>): Promise<void> {
    const { file } = lane;
    if (file === null) return;
    lane.file = null;
    try {
      await end(file);
    } finally {
      this.#held--;
    }
  }

  #checkNotDisposed(): void {
    if (this.#disposed) throw refused('the connection of the file handle has ended');
  }
}

/** What an id stands for at the moment, and the operations on it, one after another. */
class Lane {
  file: OpenFile | null = null;
  #unfinished = 0;
  #last: Promise<unknown> = Promise.resolve();

  /** Nothing is open and nobody waits. */
  get idle(): boolean {
    return this.file === null && this.#unfinished === 0;
  }

  async run<T>(operation: (lane: Lane) => Promise<T>): Promise<T> {
    this.#unfinished++;
    const result = this.#last.then(() => operation(this));
    this.#last = result.catch(() => undefined);
    try {
      return await result;
    } finally {
      this.#unfinished--;
    }
  }
}

function checkHandleId(handleId: string): void {
  if (Buffer.byteLength(handleId) <= MAX_HANDLE_ID_BYTES) return;
  throw refused(`file handle ID must not exceed ${MAX_HANDLE_ID_BYTES} bytes`);
}

function checkBlockLength(direction: 'read' | 'write', length: number): void {
  if (length >= 1 && length <= MAX_BLOCK_BYTES) return;
  throw refused(`file ${direction} block length must be between 1 and ${MAX_BLOCK_BYTES}`);
}

function checkWriteRange(offset: number, length: number): void {
  if (isExact(offset, length)) return;
  throw refused(
    isAddressable(offset, length)
      ? `file offset ${offset} is too large to be exact`
      : 'file write range exceeds the signed 64-bit file offset limit',
  );
}

function isFromSystem(error: unknown): boolean {
  return error instanceof FileError && error.errno !== null;
}
