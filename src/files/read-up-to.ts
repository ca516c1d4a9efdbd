import type { FileContent } from './file-system.ts';

/** The first `limit` bytes of a file. One read suffices if the file has the size that it reported. */
export async function readUpTo(content: FileContent, limit: number): Promise<Buffer> {
  const first = Buffer.allocUnsafeSlow(Math.min(content.size + 1, limit));
  const length = await content.read(first);
  if (length < first.length || length === limit) return first.subarray(0, length);
  const rest = Buffer.allocUnsafeSlow(limit - length);
  return Buffer.concat([first, rest.subarray(0, await content.read(rest))]);
}
