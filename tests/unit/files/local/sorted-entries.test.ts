import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ListedEntry } from '../../../../src/files/local/directory-listing.ts';
import { FirstInOrder, inByteOrder } from '../../../../src/files/local/sorted-entries.ts';

function entry(name: string): ListedEntry {
  return { name, isFile: () => true, isDirectory: () => false, isSymbolicLink: () => false };
}

const names = (entries: readonly ListedEntry[]) => entries.map(({ name }) => name);

test('sorts names in byte order and not by locale', () => {
  const sorted = inByteOrder(['b', 'a10', 'a2', 'B', '.x', '\xc3\xa9', '_'].map(entry));
  expect(names(sorted)).toEqual(['.x', 'B', '_', 'a10', 'a2', 'b', '\xc3\xa9']);
});

test('returns the first entries of all batches', () => {
  const pieces = fc
    .uniqueArray(fc.string({ minLength: 1, maxLength: 4 }), { maxLength: 60 })
    .chain((all) => fc.tuple(fc.constant(all), fc.array(fc.nat(all.length), { maxLength: 8 })));
  fc.assert(
    fc.property(pieces, fc.integer({ min: 1, max: 70 }), ([all, cuts], limit) => {
      const first = new FirstInOrder(limit);
      let start = 0;
      for (const end of [...cuts.sort((a, b) => a - b), all.length]) {
        first.add(all.slice(start, end).map(entry));
        start = end;
      }
      expect(names(first.take())).toEqual([...all].sort().slice(0, limit));
    }),
  );
});
