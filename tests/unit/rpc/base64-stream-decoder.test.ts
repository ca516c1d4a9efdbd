import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Base64StreamDecoder } from '../../../src/rpc/base64-stream-decoder.ts';
import { BASE64_DECODE_CHUNK_CHARACTERS } from '../../../src/rpc/limits.ts';
import { decodeStrictBase64 } from '../../../src/rpc/strict-base64.ts';
import { randomInputs } from '../../support/random-inputs.ts';

/** Decodes a text in chunks. Returns its bytes, or the number of accepted characters. */
function arrive(pieces: readonly Buffer[]): { bytes: Buffer } | { taken: number; text: string } {
  const base64 = new Base64StreamDecoder(pieces.reduce((sum, { length }) => sum + length, 0));
  let taken = 0;
  for (const piece of pieces) {
    const count = base64.add(Buffer.from(piece));
    taken += count;
    if (count < piece.length) return { taken, text: base64.text() };
  }
  return base64.end() ? { bytes: base64.bytes } : { taken, text: base64.text() };
}

function cut(text: Buffer, offsets: readonly number[]): Buffer[] {
  const ends = [...offsets.map((offset) => Math.floor(offset * text.length)), text.length].sort(
    (a, b) => a - b,
  );
  return ends.map((end, index) => text.subarray(ends[index - 1] ?? 0, end));
}

test('decodes like the string decoder, for any chunks and any fault', () => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 40 }).map((few) => Buffer.from(few)),
    fc
      .integer({ min: 0, max: BASE64_DECODE_CHUNK_CHARACTERS * 2 })
      .map((length) => Buffer.alloc(length, 'bytes')),
  );
  const change = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    symbol: fc.constantFrom('', 'A', '=', '-', '_', '\n', '\u00e9', '\u00c1'),
    replaced: fc.nat(1),
  });
  const offsets = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 8 });
  fc.assert(
    fc.property(bytes, fc.array(change, { maxLength: 2 }), offsets, (source, changes, cuts) => {
      const text = changes.reduce((changed, { at, symbol, replaced }) => {
        const index = Math.floor(at * changed.length);
        return `${changed.slice(0, index)}${symbol}${changed.slice(index + replaced)}`;
      }, source.toString('base64'));
      const outcome = arrive(cut(Buffer.from(text, 'latin1'), cuts));
      const expected = decodeStrictBase64(text);
      expect('bytes' in outcome).toBe(Buffer.isBuffer(expected));
      if ('bytes' in outcome) expect(outcome.bytes.equals(expected as Buffer)).toBe(true);
      else expect(outcome.text === text.slice(0, outcome.taken)).toBe(true);
    }),
    { numRuns: randomInputs(1_000) },
  );
});

test.each([
  ['nothing', []],
  ['one byte at a time', Array.from('aGVsbG8=', (letter) => Buffer.from(letter))],
  ['padding that comes alone', [Buffer.from('aGVsbG8'), Buffer.from('=')]],
])('decodes %s', (_, pieces) => {
  const whole = Buffer.concat(pieces).toString();
  expect(arrive(pieces)).toEqual({ bytes: Buffer.from(whole, 'base64') });
});

test('refuses padding before more characters', () => {
  expect(arrive([Buffer.from('aGk='), Buffer.from('aGk=')])).toEqual({ taken: 4, text: 'aGk=' });
});
