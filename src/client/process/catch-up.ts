import type { CallParamsOf, Method } from '../../protocol/registry.ts';
import type { ReadPage } from '../backend.ts';
import { readPage, readSnapshotTotal } from '../connection/server-messages.ts';
import { CATCH_UP_PAGES, LOSS_COUNT_TRIES } from '../limits.ts';
import type { EventOrder } from './event-order.ts';

/** Asks the server, one way or another. */
export type Ask = <M extends Method>(method: M, params: CallParamsOf<M>) => Promise<unknown>;

/**
 * Brings the events of one process up to date with what the server retains. What it no longer retains is counted with a snapshot,
 * where the server has that; without `mayLose` nothing happens then. Throws what `ask` throws, and InconsistentPageError.
 */
export async function catchUp(
  processId: string,
  order: EventOrder,
  ask: Ask,
  { hasSnapshots, mayLose }: { readonly hasSnapshots: boolean; readonly mayLose: boolean },
): Promise<void> {
  const read = async () =>
    readPage(await ask('process/read', { processId, afterSeq: order.lastSeq, maxBytes: null, waitMs: 0 }));
  const count = () => ask('process/snapshot', { processId }).then(readSnapshotTotal, () => null);
  let page: ReadPage = await read();
  if (!mayLose && order.wouldLose(page)) return;
  let totalBytes: number | null = null;
  for (let tries = 0; hasSnapshots && totalBytes === null && tries < LOSS_COUNT_TRIES; tries++) {
    if (!order.wouldLose(page)) break;
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
    if (page.nextSeq <= order.lastSeq + 1 || (!mayLose && order.wouldLose(page))) return;
    order.merge(page);
  }
}

function endsWithOutput({ chunks, nextSeq, closed }: ReadPage): boolean {
  return !closed && chunks.at(-1)?.seq === nextSeq - 1;
}
