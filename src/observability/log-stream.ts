import type { Writable } from 'node:stream';
import { MAX_QUEUED_LOG_BYTES } from './limits.ts';

/**
 * Passes log lines to a stream. While its reader is so slow that `maxQueuedBytes` wait, further lines are left out. When the reader has
 * caught up, a line says how many those are.
 */
export function logStream(stream: Writable, maxQueuedBytes = MAX_QUEUED_LOG_BYTES): (line: string) => void {
  let omitted = 0;
  const report = () => {
    const record = {
      time: new Date().toISOString(),
      level: 'warn',
      message: 'log records were lost: the reader of the log is slow',
      omitted,
    };
    omitted = 0;
    stream.write(`${JSON.stringify(record)}\n`);
  };
  return (line) => {
    if (stream.writableLength < maxQueuedBytes) {
      stream.write(line);
      return;
    }
    if (omitted === 0) stream.once('drain', report);
    omitted += 1;
  };
}

/** Resolves when the reader of a stream has taken what was written, when the stream fails, or after `timeoutMs`. */
export function whenWritten(stream: Writable, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, timeoutMs);
    stream.write('', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
