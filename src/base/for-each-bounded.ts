/**
 * Calls `work` for every item, at most `limit` at a time. After a failure it starts no more calls, waits for those that run, ends the
 * iteration, and throws the first error.
 */
export async function forEachBounded<T>(
  items: Iterable<T> | AsyncIterable<T>,
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  const failures: unknown[] = [];
  const worker = async (): Promise<void> => {
    while (failures.length === 0) {
      try {
        const coming = iterator.next();
        // A synchronous item is not awaited.
        const next = coming instanceof Promise ? await coming : coming;
        if (next.done === true || failures.length > 0) return;
        await work(next.value);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: limit }, worker));
  if (failures.length === 0) return;
  await iterator.return?.();
  throw failures[0];
}
