import { CallLimit } from '../connection/call-limit.ts';
import { ClientError } from '../errors.ts';
import { FILE_BLOCK_BYTES } from '../limits.ts';

/** Converts file content to bytes; text becomes UTF-8. */
export function bytesOf(content: Uint8Array | string): Uint8Array {
  return typeof content === 'string' ? new TextEncoder().encode(content) : content;
}

/** Decodes the UTF-8 text of a file. Keeps a byte order mark. */
export function textOf(bytes: Uint8Array, path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new ClientError('invalidData', `${path} is not UTF-8 text`, { cause });
  }
}

/**
 * Splits content into full blocks and a shorter last one. A block is valid until the next one is requested. An
 * abort ends the iteration immediately, even if the source is silent.
 */
export async function* blocksOf(
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array, void> {
  const block = new Uint8Array(FILE_BLOCK_BYTES);
  let filled = 0;
  for await (const chunk of untilAborted(content, signal)) {
    for (let taken = 0; taken < chunk.length; ) {
      if (filled === 0 && chunk.length - taken >= FILE_BLOCK_BYTES) {
        yield chunk.subarray(taken, taken + FILE_BLOCK_BYTES);
        taken += FILE_BLOCK_BYTES;
        continue;
      }
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

/**
 * Iterates over the source until the signal aborts. An early end calls the source's `return` and does not wait for
 * it.
 */
async function* untilAborted<T>(
  source: AsyncIterable<T> | Iterable<T>,
  signal: AbortSignal | undefined,
): AsyncGenerator<T, void> {
  const items = Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
  const limit = new CallLimit('reading the content', { signal });
  const next = async () => items.next();
  const leave = async () => items.return?.();
  let finished = false;
  try {
    for (;;) {
      const { done, value } = await limit.race(next());
      finished = done === true;
      if (finished) return;
      yield value;
    }
  } finally {
    limit.end();
    if (!finished) leave().catch(() => {});
  }
}
