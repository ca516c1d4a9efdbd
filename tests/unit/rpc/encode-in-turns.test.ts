import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeInTurns } from '../../../src/rpc/encode-in-turns.ts';
import { ENCODED_PER_TURN_CHARACTERS } from '../../../src/rpc/limits.ts';

async function encoded(value: object): Promise<string> {
  const { before, bytes, after } = await encodeInTurns(value);
  return `${before}${Buffer.from(bytes).toString()}${after}`;
}

test('encodes every value like JSON.stringify', async () => {
  const value = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue());
  await fc.assert(
    fc.asyncProperty(value, async (each) => {
      expect(await encoded(each)).toBe(JSON.stringify(each));
    }),
  );
});

test('leaves out absent members', async () => {
  expect(await encoded({ a: undefined, b: [null, 1], c: undefined, d: {} })).toBe('{"b":[null,1],"d":{}}');
});

test('lets other work run between the parts of a large value', async () => {
  const list = Array.from({ length: 10 }, () => 'é'.repeat(ENCODED_PER_TURN_CHARACTERS));
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  expect(await encoded({ list })).toBe(JSON.stringify({ list }));
  clearInterval(timer);
  expect(turns).toBeGreaterThan(0);
});
