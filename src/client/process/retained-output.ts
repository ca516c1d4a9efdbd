import type { ReadPage } from '../backend.ts';
import { ClientError } from '../errors.ts';
import { CATCH_UP_PAGES, MAX_REFUSED_READS, MISSING_EVENT_DELAY_MS } from '../limits.ts';
import { endsWithOutput } from './catch-up.ts';

/** Reads a page of retained output after a sequence number. */
type Read = (afterSeq: number) => Promise<ReadPage>;

/** Reads retained output after `afterSeq` and up to `throughSeq`, as far as the server still has it. */
export async function readRetained(read: Read, afterSeq: number, throughSeq: number) {
  const chunks: ReadPage['chunks'][number][] = [];
  for (let lastSeq = afterSeq, pages = 0; pages < CATCH_UP_PAGES; pages++) {
    const page = await readWhenPossible(read, lastSeq);
    chunks.push(...page.chunks.filter(({ seq }) => seq <= throughSeq));
    if (!endsWithOutput(page) || page.nextSeq > throughSeq || page.nextSeq - 1 <= lastSeq) break;
    lastSeq = page.nextSeq - 1;
  }
  return chunks.map((chunk) => ({ type: 'output' as const, ...chunk }));
}

/**
 * Reads with retries at growing intervals. A server that keeps refusing will not stop: its answer may exceed its own
 * size limit.
 */
async function readWhenPossible(read: Read, afterSeq: number): Promise<ReadPage> {
  for (let refusals = 0; ; ) {
    try {
      return await read(afterSeq);
    } catch (error) {
      if (!maySucceedLater(error)) throw error;
      if (!isLost(error) && ++refusals > MAX_REFUSED_READS) throw error;
      const pauseMs = MISSING_EVENT_DELAY_MS * 2 ** refusals;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}

/** Whether the same call may succeed later. */
export function maySucceedLater(error: unknown): boolean {
  return isLost(error) || (error instanceof ClientError && error.retryable);
}

/** Whether the connection ended before the answer came. */
export function isLost(error: unknown): boolean {
  return error instanceof ClientError && error.kind === 'brokenPipe';
}
