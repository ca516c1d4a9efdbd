import type { Readable } from 'node:stream';

/** Takes everything that a stream has buffered. Since Node 26, one `read()` returns one chunk. */
export function bufferedText(stream: Readable): string {
  const chunks: Buffer[] = [];
  for (let chunk: Buffer | null = stream.read(); chunk !== null; chunk = stream.read()) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
