import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import * as entry from '../../src/client/index.ts';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const PAGE = read('docs/client.md');

test('the page mentions every export of the client', () => {
  const names = Object.keys(entry);
  expect(names.length).toBeGreaterThan(5);
  for (const name of names) expect(PAGE).toMatch(new RegExp(`\\b${name}\\b`));
});

test('the page explains every kind of error, and no other', () => {
  const kinds = [...read('src/client/errors.ts').matchAll(/^ {2}\| '(\w+)'/gm)].map((match) => match[1]!);
  const rows = PAGE.slice(PAGE.indexOf('| kind |')).trimEnd().split('\n').slice(2);
  const explained = rows.flatMap((row) =>
    [...row.split('|')[1]!.matchAll(/`(\w+)`/g)].map((match) => match[1]),
  );
  expect(explained.toSorted()).toEqual(kinds.toSorted());
});
