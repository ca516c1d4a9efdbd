import { ClientError } from './errors.ts';
import { FILE_BLOCK_BYTES } from './limits.ts';

/** The content of a file as it is written: text is UTF-8. */
export function bytesOf(content: Uint8Array | string): Uint8Array {
  return typeof content === 'string' ? new TextEncoder().encode(content) : content;
}

/** The text of a file, its byte order mark included. */
export function textOf(bytes: Uint8Array, path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new ClientError('invalidData', `${path} is not a UTF-8 text`, { cause });
  }
}

/** The same bytes in full blocks and a last, shorter one. A block is valid until the next one is asked for. */
export async function* blocksOf(
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void> {
  const block = new Uint8Array(FILE_BLOCK_BYTES);
  let filled = 0;
  for await (const chunk of content) {
    for (let taken = 0; taken < chunk.length; ) {
      const part = chunk.subarray(taken, taken + block.length - filled);
      block.set(part, filled);
      filled += part.length;
      taken += part.length;
      if (filled < block.length) continue;
      yield block;
      filled = 0;
    }
  }
  if (filled > 0) yield block.subarray(0, filled);
}
