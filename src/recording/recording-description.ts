import { constants } from 'node:fs';
import { type FileHandle, lstat, open } from 'node:fs/promises';
import { type CastHeader, CastReader } from './asciicast.ts';
import { HEADER_READ_BYTES, TAIL_READ_BYTES } from './limits.ts';
import { UNKNOWN_EXIT } from './recording.ts';
import { INCOMPLETE_MARKER } from './recording-file.ts';

/** What the file of a recording contains. */
export interface FileDescription {
  readonly header: CastHeader;
  /** Bytes of whole lines. */
  readonly bytes: number;
  /** Whether it has the exit status, and no marker says that output is missing. */
  readonly complete: boolean;
  /** Whether no event follows: its last one is the exit status, or says that there is none. */
  readonly ended: boolean;
}

/** Opens a recording. Null when there is no such file, or it is no regular file: opening a pipe would wait for its writer. */
export async function openRecording(path: string): Promise<FileHandle | null> {
  const handle = await open(path, OPEN).catch(() => null);
  if (handle === null) return null;
  const status = await handle.stat().catch(() => null);
  if (status?.isFile()) return handle;
  await handle.close();
  return null;
}

const OPEN = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Describes a file. A description of the same size is still valid. Null when there is no such file, or it is no recording. */
export async function describeFile(
  path: string,
  known: FileDescription | null,
): Promise<FileDescription | null> {
  const status = await lstat(path).catch(() => null);
  if (!status?.isFile()) return null;
  if (known?.bytes === status.size) return known;
  const handle = await openRecording(path);
  if (handle === null) return null;
  try {
    const { size } = await handle.stat();
    const header = known?.header ?? (await readHeader(handle, size));
    return header === null ? null : { header, ...(await readEnd(handle, size)) };
  } finally {
    await handle.close();
  }
}

async function readHeader(handle: FileHandle, size: number): Promise<CastHeader | null> {
  const bytes = await readAt(handle, 0, Math.min(size, HEADER_READ_BYTES));
  const end = bytes.indexOf(NEWLINE);
  if (end < 0) return null;
  const reader = new CastReader();
  try {
    reader.line(bytes.toString('utf8', 0, end));
  } catch {
    return null;
  }
  return reader.header;
}

/** A server that was killed may have left the beginning of a line. */
async function readEnd(
  handle: FileHandle,
  size: number,
): Promise<Pick<FileDescription, 'bytes' | 'complete' | 'ended'>> {
  const start = Math.max(0, size - TAIL_READ_BYTES);
  const tail = await readAt(handle, start, size - start);
  const end = tail.lastIndexOf(NEWLINE) + 1;
  const [last = '', before = ''] = tail.toString('utf8', 0, end).trimEnd().split('\n').reverse();
  const [, code, text] = eventOf(before);
  const isMarked = code === 'm' && String(text).startsWith(INCOMPLETE_MARKER);
  const [, lastCode, lastText] = eventOf(last);
  const complete = lastCode === 'x' && !isMarked;
  const ended = lastCode === 'x' || (lastCode === UNKNOWN_EXIT.code && lastText === UNKNOWN_EXIT.text);
  // A longer part of a line has no end within the tail. It stays, and readers leave it out.
  return { bytes: end === 0 ? size : start + end, complete, ended };
}

/** Empty for a line that is no event, such as the rest of one that does not fit into the tail. */
function eventOf(line: string): readonly unknown[] {
  try {
    const event: unknown = JSON.parse(line);
    return Array.isArray(event) ? event : [];
  } catch {
    return [];
  }
}

async function readAt(handle: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  const { bytesRead } = await handle.read(buffer, 0, length, position);
  return buffer.subarray(0, bytesRead);
}

const NEWLINE = 10;
