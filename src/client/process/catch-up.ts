import type { CallParamsOf, Method } from '../../protocol/registry.ts';
import type { ReadPage } from '../backend.ts';
import { readPage, readSnapshotTotal } from '../connection/server-messages.ts';
import { CATCH_UP_PAGES, GAP_SIZE_ATTEMPTS } from '../limits.ts';
import type { EventOrder } from './event-order.ts';

/** Calls the server. */
export type Call = <M extends Method>(method: M, params: CallParamsOf<M>) => Promise<unknown>;

/**
 * Brings the events of one process up to date with what the server retains. A snapshot gives the size of output
 * that is no longer retained, where the server supports snapshots. Without `allowGaps` nothing is merged when
 * events are lost. Throws what `call` throws, and InconsistentPageError.
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
  for (let attempts = 0; hasSnapshots && totalBytes === null && attempts < GAP_SIZE_ATTEMPTS; attempts++) {
    if (!order.hasGap(page)) break;
    // Sent together, both requests usually see the same state, so the total fits the page.
    const [next, total] = await Promise.all([read(), count()]);
    // The chunks of the first page may have been evicted in the meantime.
    page = { ...next, chunks: [...page.chunks, ...next.chunks] };
    if (total?.nextSeq === next.nextSeq) totalBytes = total.bytes;
  }
  order.merge(page, totalBytes);
  // A server with a size limit may end a page before the output ends. Only the next page shows it.
  for (let pages = 1; pages < CATCH_UP_PAGES && endsWithOutput(page); pages++) {
    page = await read();
    if (page.nextSeq <= order.lastSeq + 1 || (!allowGaps && order.hasGap(page))) return;
    order.merge(page);
  }
}

function endsWithOutput({ chunks, nextSeq, closed }: ReadPage): boolean {
  return !closed && chunks.at(-1)?.seq === nextSeq - 1;
}
