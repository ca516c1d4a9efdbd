import type { CallParamsOf, Method } from '../../protocol/registry.ts';
import type { ReadPage } from '../backend.ts';
import { readPage, readPosition } from '../connection/server-messages.ts';
import { CATCH_UP_PAGES } from '../limits.ts';
import type { EventOrder } from './event-order.ts';

/** Calls the server. */
export type Call = <M extends Method>(method: M, params: CallParamsOf<M>) => Promise<unknown>;

interface CatchUpOptions {
  readonly withPosition: boolean;
  readonly withTimes: boolean;
  readonly allowGaps: boolean;
}

/**
 * Brings the events of one process up to date with what the server retains. `withPosition` requests what is needed to
 * count lost output, where the server supports it. Without `allowGaps` nothing is merged when events are lost. Throws
 * what `call` throws, and InconsistentPageError.
 */
export async function catchUp(
  processId: string,
  order: EventOrder,
  call: Call,
  { withPosition, withTimes, allowGaps }: CatchUpOptions,
): Promise<void> {
  const params = {
    processId,
    maxBytes: null,
    waitMs: 0,
    ...(withPosition && { withPosition }),
    ...(withTimes && { withTimes }),
  };
  // A server with a size limit may end a page before the output ends. Only the next page shows it.
  for (let pages = 0; pages < CATCH_UP_PAGES; pages++) {
    const result = await call('process/read', { ...params, afterSeq: order.lastSeq });
    // A reader that has detached meanwhile needs no more pages, and would get the same one again and again.
    if (order.ended) return;
    const page = readPage(result);
    if (!allowGaps && order.hasGap(page)) return;
    if (pages > 0 && page.nextSeq <= order.lastSeq + 1) return;
    order.merge(page, readPosition(result));
    if (!endsWithOutput(page)) return;
  }
}

/** Whether output may follow the page: the end of a process comes after its last output. */
export function endsWithOutput({ chunks, nextSeq }: Pick<ReadPage, 'chunks' | 'nextSeq'>): boolean {
  return chunks.at(-1)?.seq === nextSeq - 1;
}
