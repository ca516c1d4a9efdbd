import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { TextPieces } from '../../../../src/agent/output/text-pieces.ts';
import { ANY_CHARACTER } from '../../../support/any-character.ts';

function cut(maxBytes: number, pieces: readonly Uint8Array[]): Buffer[] {
  const cutter = new TextPieces(maxBytes);
  const made = pieces.flatMap((piece) => cutter.push(piece));
  return [...made, ...cutter.flush()].map((piece) => Buffer.from(piece));
}

const STRICT = () => new TextDecoder('utf-8', { fatal: true });

describe('TextPieces', () => {
  test('joins a character that arrives in two chunks', () => {
    const smile = Buffer.from('a😀b');
    expect(cut(100, [smile.subarray(0, 3), smile.subarray(3)]).map(String)).toEqual(['a', '😀b']);
  });

  test('passes invalid UTF-8 unchanged', () => {
    expect(cut(100, [Buffer.from([0xff, 0x80, 0x61]), Buffer.from([0xc3])])).toEqual([
      Buffer.from([0xff, 0x80, 0x61]),
      Buffer.from([0xc3]),
    ]);
  });

  test('returns an incomplete character at the end', () => {
    const cutter = new TextPieces(100);
    expect(cutter.push(Buffer.from([0xf0, 0x9f, 0x98]))).toEqual([]);
    expect(cutter.flush()).toEqual([Uint8Array.of(0xf0, 0x9f, 0x98)]);
    expect(cutter.flush()).toEqual([]);
  });

  test('limits the size of pieces', () => {
    expect(cut(4, [Buffer.from('0123456789')]).map(String)).toEqual(['0123', '4567', '89']);
    expect(cut(4, [Buffer.from('éé€')]).map(String)).toEqual(['éé', '€']);
  });

  test('returns all bytes in order', () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 20 })),
        fc.integer({ min: 4, max: 12 }),
        (pieces, max) => {
          const made = cut(max, pieces);
          expect(Buffer.concat(made)).toEqual(Buffer.concat(pieces));
          for (const piece of made) expect(piece.length).toBeLessThanOrEqual(max);
        },
      ),
    );
  });

  test('returns whole characters for every chunking', () => {
    const texts = fc.string({ unit: ANY_CHARACTER, maxLength: 30 }).map((text) => Buffer.from(text));
    fc.assert(
      fc.property(texts, fc.array(fc.nat(120)), fc.integer({ min: 4, max: 12 }), (bytes, cuts, max) => {
        const offsets = [0, ...cuts.map((offset) => offset % (bytes.length + 1)).sort((a, b) => a - b)];
        const parts = offsets.map((offset, index) =>
          bytes.subarray(offset, offsets[index + 1] ?? bytes.length),
        );
        for (const piece of cut(max, parts)) STRICT().decode(piece);
      }),
    );
  });
});
