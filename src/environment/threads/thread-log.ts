import { ClientError } from '../../client/errors.ts';
import type { SelectedCapabilityRoot } from '../capability-roots/selected-root.ts';
import { quote } from '../config/toml-table.ts';
import { MAX_THREAD_BYTES } from '../limits.ts';
import {
  type DamagedRecord,
  encodeRecord,
  openForAppend,
  type ThreadEnd,
  type ThreadRecord,
} from './thread-file.ts';

interface ThreadContent {
  readonly id: string;
  readonly path: string;
  readonly metadata: ThreadRecord;
  readonly roots: readonly SelectedCapabilityRoot[];
  readonly turns: readonly ThreadRecord[];
  readonly damage: readonly DamagedRecord[];
}

/** A stored thread that its one writer continues. It holds no file open. */
export class ThreadLog {
  readonly id: string;
  /** The members of the first record, without the thread id. */
  readonly metadata: ThreadRecord;
  /** The selected capability roots. They never change: an unavailable environment does not edit them. */
  readonly roots: readonly SelectedCapabilityRoot[];
  /** The turns that were stored when the thread was opened. */
  readonly turns: readonly ThreadRecord[];
  /** Records that are skipped because a write was interrupted. */
  readonly damage: readonly DamagedRecord[];
  readonly #path: string;
  #end: ThreadEnd;
  #appending = false;

  /** @internal Created by ThreadStore. */
  constructor(content: ThreadContent, end: ThreadEnd) {
    this.id = content.id;
    this.metadata = content.metadata;
    this.roots = content.roots;
    this.turns = content.turns;
    this.damage = content.damage;
    this.#path = content.path;
    this.#end = end;
  }

  /**
   * Stores a turn durably. Throws ClientError `conflict` when another writer has changed the thread since this one opened it, and
   * `overloaded` when an append is under way.
   */
  async append(turn: ThreadRecord): Promise<void> {
    const line = encodeRecord(turn);
    // A record after an interrupted one starts a line of its own.
    const bytes = this.#end.torn ? Buffer.concat([NEWLINE, line]) : line;
    if (this.#end.size + bytes.length > MAX_THREAD_BYTES) {
      throw new ClientError('invalidInput', `${threadName(this.id)} is full`, {
        hint: `it can have at most ${MAX_THREAD_BYTES} bytes; fork it with fewer turns`,
      });
    }
    if (this.#appending) {
      throw new ClientError('overloaded', `an append to ${threadName(this.id)} is under way`, {
        hint: 'wait for it first',
        retryable: true,
      });
    }
    this.#appending = true;
    try {
      await this.#write(bytes);
    } catch (error) {
      throw fileError(`the turn cannot be added to ${threadName(this.id)}`, error);
    } finally {
      this.#appending = false;
    }
  }

  async #write(bytes: Buffer): Promise<void> {
    const file = await openForAppend(this.#path);
    try {
      const { ino: inode, size } = await file.stat();
      if (inode !== this.#end.inode || size !== this.#end.size) throw this.#conflict('nothing was written');
      const { bytesWritten } = await file.write(bytes);
      if ((await file.stat()).size !== size + bytesWritten) throw this.#conflict('the turn may be stored');
      const torn = bytesWritten < bytes.length;
      this.#end = { inode, size: size + bytesWritten, torn };
      if (torn) throw new Error(`only ${bytesWritten} of ${bytes.length} bytes were written`);
      await file.datasync();
    } finally {
      await file.close();
    }
  }

  #conflict(effect: string): ClientError {
    return new ClientError('conflict', `another writer has changed ${threadName(this.id)}; ${effect}`, {
      hint: 'resume the thread to read it again, or fork it',
    });
  }
}

const NEWLINE = Buffer.from('\n');

/** The name of a thread in messages. */
export function threadName(threadId: string): string {
  return `thread ${quote(threadId)}`;
}

/** Converts a failure to a ClientError that says what failed. */
export function fileError(what: string, error: unknown): ClientError {
  if (error instanceof ClientError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return new ClientError('notFound', `${what}: it does not exist`, { cause: error });
  return new ClientError('storage', `${what}: ${message}`, { cause: error });
}
