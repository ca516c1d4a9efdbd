import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { isObject } from '../../base/is-object.ts';
import { LineSplitter } from '../../base/line-splitter.ts';
import { ClientError } from '../../client/errors.ts';
import { MAX_THREAD_BYTES, MAX_THREAD_RECORD_BYTES } from '../limits.ts';

/**
 * A record of a thread: an object that JSON can store. No part of its text is a complete object, so an interrupted write is
 * recognized.
 */
export type ThreadRecord = Readonly<Record<string, unknown>>;

/** A record that could not be read, and the number of its line. */
export interface DamagedRecord {
  readonly line: number;
  readonly reason: string;
}

interface ThreadFile {
  readonly first: ThreadRecord;
  readonly turns: readonly ThreadRecord[];
  readonly damage: readonly DamagedRecord[];
  readonly end: ThreadEnd;
}

/** Where the next record goes. */
export interface ThreadEnd {
  readonly inode: number;
  readonly size: number;
  /** Whether the last line has no end, because the write was interrupted. */
  readonly torn: boolean;
}

/** Returns the line for a record. Throws ClientError `invalidInput` when it is not an object or too large. */
export function encodeRecord(record: ThreadRecord): Buffer {
  const text = isRecord(record) ? textOf(record) : '';
  if (!text.startsWith('{')) {
    throw new ClientError('invalidInput', 'a record of a thread is not an object');
  }
  const line = Buffer.from(`${text}\n`);
  if (line.length <= MAX_THREAD_RECORD_BYTES) return line;
  throw new ClientError('invalidInput', `a record of a thread has ${line.length} bytes`, {
    hint: `it can have at most ${MAX_THREAD_RECORD_BYTES}`,
  });
}

function textOf(record: ThreadRecord): string {
  try {
    return JSON.stringify(record) ?? '';
  } catch (cause) {
    throw new ClientError('invalidInput', 'a record of a thread cannot be stored as JSON', { cause });
  }
}

/** Reads a thread. Throws when the first record is damaged; other damaged records are skipped and listed. */
export async function readThreadFile(path: string): Promise<ThreadFile> {
  const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
  const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const status = await file.stat();
    if (!status.isFile()) throw damaged('it is not a regular file');
    if (status.size > MAX_THREAD_BYTES) throw damaged(`it has more than ${MAX_THREAD_BYTES} bytes`);
    if (status.size === 0) throw damaged('it is empty');
    const { torn, ...content } = await parseThread(file, status.size);
    return { ...content, end: { inode: status.ino, size: status.size, torn } };
  } finally {
    await file.close();
  }
}

/** Opens a thread for one append. */
export function openForAppend(path: string): Promise<FileHandle> {
  const { O_APPEND, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = constants;
  return open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK);
}

/** Reads exactly the first `size` bytes: another process may append meanwhile. */
async function parseThread(file: FileHandle, size: number) {
  const records: ThreadRecord[] = [];
  const damage: DamagedRecord[] = [];
  let number = 0;
  const take = (line: Buffer) => {
    number++;
    // An append after an interrupted one may leave an empty line.
    if (line.length === 0 && number > 1) return;
    const record = parseRecord(line);
    if (typeof record !== 'string') records.push(record);
    else if (number === 1) throw damaged(`its first record is ${record}`);
    else damage.push({ line: number, reason: record });
  };
  const lines = new LineSplitter(MAX_THREAD_RECORD_BYTES);
  for await (const chunk of file.createReadStream({ start: 0, end: size - 1, autoClose: false })) {
    for (const line of lines.push(chunk as Buffer)) take(line);
  }
  const rest = lines.rest();
  const torn = rest.length > 0;
  if (torn) take(rest);
  return { first: records[0]!, turns: records.slice(1), damage, torn };
}

/** Returns the record, or the reason why it is damaged. */
function parseRecord(line: Buffer): ThreadRecord | string {
  try {
    const value: unknown = JSON.parse(line.toString());
    return isRecord(value) ? value : 'not an object';
  } catch {
    return 'not complete JSON';
  }
}

function damaged(reason: string): ClientError {
  return new ClientError('invalidData', reason);
}

function isRecord(value: unknown): value is ThreadRecord {
  return isObject(value);
}
