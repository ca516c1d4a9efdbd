import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { type ChainEnd, hashLine, NEW_CHAIN, parseLine } from './chain.ts';
import { AUDIT_LINE_MAX_BYTES } from './limits.ts';

/** Where an audit log ended when it was opened. */
export interface AuditTail extends ChainEnd {
  /** Whether the last line was left incomplete; its bytes are part of the chain all the same. */
  readonly torn: boolean;
}

/** An open audit log that only this server writes: it notices when somebody else has changed it. */
export class AuditFile {
  readonly tail: AuditTail;
  readonly #handle: FileHandle;
  readonly #fsync: boolean;
  #size: number;

  private constructor(handle: FileHandle, fsync: boolean, size: number, tail: AuditTail) {
    this.#handle = handle;
    this.#fsync = fsync;
    this.#size = size;
    this.tail = tail;
  }

  /** Opens a log, or makes one that only its owner can read. Throws when it is no regular file or does not end like a log. */
  static async open(path: string, options: { readonly fsync: boolean }): Promise<AuditFile> {
    const flags = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK;
    const handle = await open(path, flags, 0o600);
    try {
      const status = await handle.stat();
      if (!status.isFile()) throw new Error('it is not a regular file');
      return new AuditFile(handle, options.fsync, status.size, await readTail(handle, status.size));
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Whether both are one file, which is so unless it was moved away in between. */
  async isSameAs(other: AuditFile): Promise<boolean> {
    const [a, b] = await Promise.all([this.#handle.stat(), other.#handle.stat()]);
    return a.dev === b.dev && a.ino === b.ino;
  }

  /** Appends some of the bytes and returns how many; a disk that is filling up may take a part. Throws when it takes none. */
  async append(bytes: Uint8Array): Promise<number> {
    const { size, nlink } = await this.#handle.stat();
    if (nlink === 0) throw new Error('the file was removed');
    if (size !== this.#size) throw new Error('somebody else has changed the file');
    const { bytesWritten } = await this.#handle.write(bytes);
    this.#size += bytesWritten;
    return bytesWritten;
  }

  /** Has what was appended reach the disk, where that is wanted. */
  async settle(): Promise<void> {
    if (this.#fsync) await this.#handle.datasync();
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

async function readTail(handle: FileHandle, size: number): Promise<AuditTail> {
  if (size === 0) return { ...NEW_CHAIN, torn: false };
  const length = Math.min(size, 2 * AUDIT_LINE_MAX_BYTES);
  const bytes = Buffer.allocUnsafe(length);
  await handle.read(bytes, 0, length, size - length);
  const torn = bytes[length - 1] !== NEWLINE;
  const end = torn ? length : length - 1;
  const start = lineStart(bytes, end);
  const last = bytes.subarray(start, end);
  const complete = torn && start > 0 ? bytes.subarray(lineStart(bytes, start - 1), start - 1) : last;
  const line = parseLine(complete);
  // A first line that was cut off leaves nothing to go on from but itself.
  const firstWasTorn = torn && start === 0 && length === size;
  if (line === null && !firstWasTorn) throw new Error('it does not end like an audit log; move it away');
  return { nextSeq: (line?.seq ?? -1) + 1, hash: hashLine(last), torn };
}

const NEWLINE = 10;

function lineStart(bytes: Buffer, end: number): number {
  return end === 0 ? 0 : bytes.lastIndexOf(NEWLINE, end - 1) + 1;
}
