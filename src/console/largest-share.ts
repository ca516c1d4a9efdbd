/**
 * The items of the owner that has most of them, in their order. What is full gives up one of these, so an owner that takes much loses its
 * own. There is at least one item.
 */
export function largestShare<Item>(items: Iterable<Item>, ownerOf: (item: Item) => string): readonly Item[] {
  const byOwner = new Map<string, Item[]>();
  let largest: readonly Item[] = [];
  for (const item of items) {
    const owner = ownerOf(item);
    const share = byOwner.get(owner) ?? [];
    share.push(item);
    byOwner.set(owner, share);
    if (share.length > largest.length) largest = share;
  }
  return largest;
}
