import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { type ChainEnd, hashLine, NEW_CHAIN, parseLine } from './chain.ts';
import { AUDIT_LINE_MAX_BYTES } from './limits.ts';

/** Where an audit log ended when it was opened. */
interface AuditTail extends ChainEnd {
  /** Whether the last line is incomplete. Its bytes are part of the chain nevertheless. */
  readonly torn: boolean;
}

/** An open audit log. Only this process may write it; `append` detects changes by others. */
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

  /** Opens a log, or creates it with mode 0600. Throws when it is not a regular file or its last line is not an audit record. */
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

  /** Whether both handles refer to the same file, that is, the path was not rotated in between. */
  async isSameAs(other: AuditFile): Promise<boolean> {
    const [a, b] = await Promise.all([this.#handle.stat(), other.#handle.stat()]);
    return a.dev === b.dev && a.ino === b.ino;
  }

  /** Appends bytes. @returns how many were written; a nearly full disk may take only a part. Throws when it takes none. */
  async append(bytes: Uint8Array): Promise<number> {
    const { size, nlink } = await this.#handle.stat();
    if (nlink === 0) throw new Error('the file was removed');
    if (size !== this.#size) throw new Error('another process changed the file');
    const { bytesWritten } = await this.#handle.write(bytes);
    this.#size += bytesWritten;
    return bytesWritten;
  }

  /** Removes what was appended last. Throws when it cannot. */
  async removeLast(bytes: number): Promise<void> {
    const { size } = await this.#handle.stat();
    if (size !== this.#size) throw new Error('another process changed the file');
    await this.#handle.truncate(size - bytes);
    this.#size = size - bytes;
  }

  /** Flushes appended data to the disk, if the `fsync` option is set. */
  async flush(): Promise<void> {
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
  // If the only line is incomplete, the chain continues from its bytes.
  const firstWasTorn = torn && start === 0 && length === size;
  if (line === null && !firstWasTorn)
    throw new Error('its last line is not an audit record; move the file away');
  return { nextSeq: (line?.seq ?? -1) + 1, hash: hashLine(last), torn };
}

const NEWLINE = 10;

function lineStart(bytes: Buffer, end: number): number {
  return end === 0 ? 0 : bytes.lastIndexOf(NEWLINE, end - 1) + 1;
}
