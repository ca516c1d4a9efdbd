import { expect, test } from 'vitest';
import { LineTimes } from '../../../../src/cli/programs/line-times.ts';

const AT = Date.UTC(2026, 0, 31, 9, 30, 0, 5);
const [FIRST, SECOND] = ['2026-01-31T09:30:00.005Z', '2026-01-31T09:30:01.005Z'];

test.each([
  ['one line', ['a\n'], `${FIRST} a\n`],
  ['several lines at a time', ['a\n\nb\n'], `${FIRST} a\n${FIRST} \n${FIRST} b\n`],
  ['a line in parts, with the time of its beginning', ['a', 'b\nc'], `${FIRST} ab\n${SECOND} c`],
  ['nothing', [''], ''],
  ['a part that ends with its line', ['a\n', 'b'], `${FIRST} a\n${SECOND} b`],
])('puts the time in front of %s', (_name, parts, expected) => {
  const times = new LineTimes();
  const printed = parts.map((part, index) => times.next(Buffer.from(part), AT + index * 1_000));
  expect(Buffer.concat(printed).toString()).toBe(expected);
});
