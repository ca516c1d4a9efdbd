import { expect, test } from 'vitest';
import { UnfinishedMessages } from '../../../src/transport/unfinished-messages.ts';

/** Begins messages that record their refusal by name. */
function create(maxBytes: number) {
  const refused: string[] = [];
  const messages = new UnfinishedMessages(maxBytes);
  const begin = (name: string, group?: unknown) => messages.begin(() => refused.push(name), group);
  return { begin, refused };
}

test('refuses the oldest messages until the rest fits', () => {
  const { begin, refused } = create(10);
  const [a, b, c] = [begin('a'), begin('b'), begin('c')];
  a.add(4);
  b.add(4);
  c.add(2);
  expect(refused).toEqual([]);
  c.add(5);
  expect(refused).toEqual(['a', 'b']);
  // What a refused message adds is not counted.
  a.add(100);
  c.add(3);
  expect(refused).toEqual(['a', 'b']);
});

test('a message that has ended occupies nothing', () => {
  const { begin, refused } = create(10);
  const [a, b] = [begin('a'), begin('b')];
  a.add(8);
  a.end();
  a.end();
  b.add(10);
  expect(refused).toEqual([]);
});

test('refuses the oldest message of the group with the most bytes', () => {
  const { begin, refused } = create(100);
  const patient = begin('patient', 'small');
  patient.add(20);
  const many = Array.from({ length: 9 }, (_, index) => begin(`large ${index}`, 'large'));
  for (const message of many) message.add(10);
  expect(refused).toEqual(['large 0']);
  patient.add(10);
  expect(refused).toEqual(['large 0', 'large 1']);
  for (const message of many) message.end();
  patient.add(70);
  expect(refused).toHaveLength(2);
  patient.add(1);
  expect(refused.at(-1)).toBe('patient');
});
