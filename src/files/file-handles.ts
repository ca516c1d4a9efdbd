import { FileError, refused } from './errors.ts';
import type { OpenFile } from './file-system.ts';
import { MAX_BLOCK_BYTES, MAX_FILE_HANDLES, MAX_HANDLE_ID_BYTES } from './limits.ts';
import { isAddressable, isExact } from './local/positional-io.ts';

/** A block of a file. `eof` means that the read returned fewer bytes than requested. */
interface FileBlock {
  readonly bytes: Buffer;
  readonly eof: boolean;
}

/** Provides the buffers for blocks, each one right before the block is read. */
interface BlockBuffers {
  take(length: number): Buffer;
}

interface CloseOptions {
  readonly discard?: boolean;
  readonly sha256?: string | undefined;
}

/** What an operation waits for in addition to the earlier operations on its handle. Null or absent means nothing. */
type Turn = Promise<void> | null;

/**
 * The open files of one connection, by the handle ids that the client chose. Operations on one id run in the order of the calls, so
 * a client may send an open, its blocks and the close without waiting for responses. Different ids do not wait for one another.
 */
export class FileHandles {
  readonly #buffers: BlockBuffers | undefined;
  readonly #maxHandles: number;
  readonly #lanes = new Map<string, Lane>();
  /** The closes in progress. None of them rejects. */
  readonly #closing = new Set<Promise<unknown>>();
  /** Number of files that are open, being opened or being closed. */
  #count = 0;
  #disposed = false;

  /** Without `buffers` each block gets a new buffer. */
  constructor(buffers?: BlockBuffers, maxHandles = MAX_FILE_HANDLES) {
    this.#buffers = buffers;
    this.#maxHandles = maxHandles;
  }

  /** Calls `open` and registers its file under the id. Fails when the id is in use or the connection has too many handles. */
  async open(handleId: string, open: () => Promise<OpenFile>, after?: Turn): Promise<void> {
    checkHandleId(handleId);
    const closesBefore = [...this.#closing];
    await this.#inTurn(handleId, after, async (lane) => {
      if (lane.file !== null) throw refused(`file handle \`${handleId}\` already exists`);
      await this.#reserveHandle(closesBefore);
      try {
        lane.file = await open();
      } catch (error) {
        this.#count--;
        throw error;
      }
    });
  }

  /** A system error closes the handle; a rejected request does not. */
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

  /** The handle stays open even if the write fails. */
  async writeBlock(handleId: string, offset: number, bytes: Uint8Array, after?: Turn): Promise<void> {
    checkHandleId(handleId);
    checkBlockLength('write', bytes.length);
    checkWriteRange(offset, bytes.length);
    await this.#inTurn(handleId, after, (lane) => this.#fileOf(lane, handleId).write(offset, bytes));
  }

  /**
   * The handle is gone afterwards, even if closing fails. `discard` drops an atomic replacement. An unknown id is not an error. With
   * `sha256` an unknown id is an error, and a replacement with another hash is dropped.
   */
  async close(handleId: string, after?: Turn, { discard = false, sha256 }: CloseOptions = {}): Promise<void> {
    checkHandleId(handleId);
    const closed = this.#inTurn(handleId, after, async (lane) => {
      if (sha256 !== undefined) this.#fileOf(lane, handleId);
      await this.#end(lane, async (file) => {
        if (discard || this.#disposed) await file.discard();
        else if (sha256 === undefined) await file.close();
        else await closeVerified(file, sha256);
      });
    });
    const settled = closed.catch(() => undefined);
    this.#closing.add(settled);
    void settled.then(() => this.#closing.delete(settled));
    await closed;
  }

  /**
   * Discards every file, including those still being opened. Operations in progress finish first. Queued operations have no effect:
   * an atomic replacement must not take effect without its queued writes.
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
   * A client that closed a handle earlier may rely on the free slot, so this waits for the closes that came before. It does not
   * wait for later closes: they may wait for this open.
   */
  async #reserveHandle(closesBefore: readonly Promise<unknown>[]): Promise<void> {
    if (this.#count >= this.#maxHandles) await Promise.all(closesBefore);
    this.#checkNotDisposed();
    if (this.#count >= this.#maxHandles) {
      throw refused(`at most ${this.#maxHandles} file handles may be open per connection`);
    }
    this.#count++;
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
      this.#count--;
    }
  }

  #checkNotDisposed(): void {
    if (this.#disposed) throw refused('the connection of the file handle has ended');
  }
}

/** The file behind one id, and the queue of operations on it. */
class Lane {
  file: OpenFile | null = null;
  #unfinished = 0;
  #last: Promise<unknown> = Promise.resolve();

  /** No file is open and no operation is queued. */
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

/** Closes the file if what was written has the hash. Otherwise drops the replacement. */
async function closeVerified(file: OpenFile, sha256: string): Promise<void> {
  try {
    if (file.digest === undefined) throw refused('fs/close accepts sha256 only after fs/open with hash');
    const digest = await file.digest();
    if (digest === null) {
      throw refused(
        'the SHA-256 of the content is not known, because its blocks were not written in order from the start of the file; nothing was replaced',
      );
    }
    if (digest !== sha256) {
      throw refused(`the SHA-256 of the content is ${digest}, not ${sha256}; nothing was replaced`);
    }
  } catch (error) {
    await file.discard();
    throw error;
  }
  await file.close();
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
