import { constants } from 'node:fs';
import { open } from 'node:fs/promises';

/** Reads a UTF-8 file of at most `maxBytes`; null when it does not exist. Rejects with an error that says why it cannot be read. */
export async function readSmallFile(path: string, maxBytes: number): Promise<string | null> {
  try {
    // Does not wait for the writer of a named pipe.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const buffer = Buffer.alloc(maxBytes + 1);
      let length = 0;
      for (let count = -1; count !== 0 && length < buffer.length; length += count) {
        count = (await file.read(buffer, length, buffer.length - length, null)).bytesRead;
      }
      if (length > maxBytes) throw new Error(`it has more than ${maxBytes} bytes`);
      return new TextDecoder('utf-8', { fatal: true }).decode(buffer.subarray(0, length));
    } finally {
      await file.close();
    }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw new Error(`cannot read ${path}: ${FAILURES[code ?? ''] ?? message}`);
  }
}

const FAILURES: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EISDIR: 'it is a directory',
  ERR_ENCODING_INVALID_ENCODED_DATA: 'it is not UTF-8 text',
};
