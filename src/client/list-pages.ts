import { ClientError } from './errors.ts';
import { LIST_MAX_PAGES } from './limits.ts';

/** One page of a list. `next` is absent in the last one. */
interface Page<Item, Cursor> {
  readonly items: readonly Item[];
  readonly next: Cursor | undefined;
}

/**
 * Reads a list page by page. Rejects with ClientError when a server returns to an earlier page, or does not end the list.
 * `subject` names the list in these errors.
 */
export async function listPages<Item, Cursor extends number | string>(
  subject: string,
  readPage: (after: { readonly after?: Cursor }) => Promise<Page<Item, Cursor>>,
): Promise<readonly Item[]> {
  const found: Item[] = [];
  let after: Cursor | undefined;
  for (let pages = 0; pages < LIST_MAX_PAGES; pages++) {
    const { items, next } = await readPage(after === undefined ? {} : { after });
    found.push(...items);
    if (next === undefined) return found;
    if (after !== undefined && next <= after)
      throw new ClientError('protocol', `invalid message from the server: the list of ${subject} goes back`);
    after = next;
  }
  throw new ClientError('protocol', `the list of ${subject} did not end after ${LIST_MAX_PAGES} pages`);
}
