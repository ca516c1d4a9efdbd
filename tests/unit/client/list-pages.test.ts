import { expect, test } from 'vitest';
import { LIST_MAX_PAGES } from '../../../src/client/limits.ts';
import { listPages } from '../../../src/client/list-pages.ts';

test('joins the pages in order, each read after the one before', async () => {
  const pages = [
    { items: ['a', 'b'], next: 2 },
    { items: [], next: 5 },
    { items: ['c'], next: undefined },
  ];
  const cursors: (number | undefined)[] = [];
  const found = await listPages<string, number>('letters', async ({ after }) => {
    cursors.push(after);
    return pages[cursors.length - 1]!;
  });
  expect(found).toEqual(['a', 'b', 'c']);
  expect(cursors).toEqual([undefined, 2, 5]);
});

test('rejects a list that returns to an earlier page', async () => {
  const listing = listPages<string, string>('letters', async () => ({ items: ['a'], next: 'm' }));
  await expect(listing).rejects.toMatchObject({
    kind: 'protocol',
    message: expect.stringContaining('the list of letters goes back'),
  });
});

test('rejects a list without an end', async () => {
  let pages = 0;
  const listing = listPages<string, number>('letters', async () => ({ items: [], next: ++pages }));
  await expect(listing).rejects.toThrow('the list of letters did not end');
  expect(pages).toBe(LIST_MAX_PAGES);
});
