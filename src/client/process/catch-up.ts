import type { CallParamsOf, Method } from '../../protocol/registry.ts';
import type { ReadPage } from '../backend.ts';
import { readPage, readSnapshotTotal } from '../connection/server-messages.ts';
import { CATCH_UP_PAGES, GAP_SIZE_ATTEMPTS } from '../limits.ts';
import type { EventOrder } from './event-order.ts';

/** Asks the server, one way or another. */
export type Call = <M extends Method>(method: M, params: CallParamsOf<M>) => Promise<unknown>;

/**
 * Brings the events of one process up to date with what the server retains. What it no longer retains is counted with a snapshot,
 * where the server has that; without `allowGaps` nothing happens then. Throws what `call` throws, and InconsistentPageError.
 */
export async function catchUp(
  processId: string,
  order: EventOrder,
  call: Call,
  { hasSnapshots, allowGaps }: { readonly hasSnapshots: boolean; readonly allowGaps: boolean },
): Promise<void> {
  const read = async () =>
    readPage(await call('process/read', { processId, afterSeq: order.lastSeq, maxBytes: null, waitMs: 0 }));
  const count = () => call('process/snapshot', { processId }).then(readSnapshotTotal, () => null);
  let page: ReadPage = await read();
  if (!allowGaps && order.hasGap(page)) return;
  let totalBytes: number | null = null;
  for (let tries = 0; hasSnapshots && totalBytes === null && tries < GAP_SIZE_ATTEMPTS; tries++) {
    if (!order.hasGap(page)) break;
    // Asked in one go, both mostly are of the same moment, and the total fits the page.
    const [next, total] = await Promise.all([read(), count()]);
    // What the first page had may have been evicted meanwhile.
    page = { ...next, chunks: [...page.chunks, ...next.chunks] };
    if (total?.nextSeq === next.nextSeq) totalBytes = total.bytes;
  }
  order.merge(page, totalBytes);
  // Where answers are limited a page may end before the output does: only the next one tells.
  for (let pages = 1; pages < CATCH_UP_PAGES && endsWithOutput(page); pages++) {
    page = await read();
    if (page.nextSeq <= order.lastSeq + 1 || (!allowGaps && order.hasGap(page))) return;
    order.merge(page);
  }
}

function endsWithOutput({ chunks, nextSeq, closed }: ReadPage): boolean {
  return !closed && chunks.at(-1)?.seq === nextSeq - 1;
}
