import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  BinaryMessageError,
  encodeBinaryHead,
  isBinaryMessage,
  splitBinaryMessage,
} from '../../../src/transport/binary-message.ts';
import { BinaryMessageReader } from '../../../src/transport/binary-message-reader.ts';
import { BINARY_TEXT_MAX_BYTES } from '../../../src/transport/limits.ts';

/** Reads a payload that arrives in these pieces. Returns what arrived, or why nothing did. */
function read(
  pieces: readonly Uint8Array[],
  expectedBytes?: number,
): { text: string; bytes: Buffer } | string {
  let outcome: { text: string; bytes: Buffer } | string | null = null;
  const total = pieces.reduce((sum, { length }) => sum + length, 0);
  const reader = new BinaryMessageReader(expectedBytes ?? total, {
    bytesMessage: ({ text, bytes, release }) => {
      outcome = { text, bytes: Buffer.from(bytes) };
      release?.();
    },
    undecodable: (reason) => {
      outcome = reason;
    },
  });
  for (const piece of pieces) reader.add(piece);
  reader.end();
  return outcome!;
}

function encode(text: string, bytes: Uint8Array): Buffer {
  return Buffer.concat([encodeBinaryHead(text), bytes]);
}

test('any text and bytes arrive unchanged, in one piece and in pieces of any size', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme' }),
      fc.uint8Array({ maxLength: 300 }),
      fc.array(fc.nat(400), { maxLength: 6 }),
      fc.nat(2_000),
      (text, bytes, cuts, expectedBytes) => {
        const payload = encode(text, bytes);
        expect(isBinaryMessage(payload)).toBe(true);
        const expected = { text, bytes: Buffer.from(bytes) };
        const whole = splitBinaryMessage(payload);
        expect({ text: whole.text, bytes: Buffer.from(whole.bytes) }).toEqual(expected);
        const ends = [0, ...cuts.filter((cut) => cut < payload.length).sort((a, b) => a - b), payload.length];
        const pieces = ends.slice(1).map((end, index) => payload.subarray(ends[index], end));
        expect(read(pieces)).toEqual(expected);
        // Of a fragmented message only the first part is announced.
        expect(read(pieces, expectedBytes)).toEqual(expected);
      },
    ),
  );
});

test.each([
  ['nothing after the first byte', Buffer.from([0]), 'ends before its JSON does'],
  ['a JSON that is cut off', Buffer.from([0, 0, 0, 3, 0x7b, 0x7d]), 'ends before its JSON does'],
  ['a JSON that is not UTF-8', Buffer.from([0, 0, 0, 2, 0x7b, 0xff, 1]), 'not valid UTF-8'],
])('refuses %s', (_case, payload, reason) => {
  expect(read([payload])).toContain(reason);
  expect(read([...payload].map((byte) => Buffer.of(byte)))).toContain(reason);
  expect(() => splitBinaryMessage(payload)).toThrow(BinaryMessageError);
});

test('refuses a JSON that is too long, however much of it follows', () => {
  const head = Buffer.alloc(4);
  head.writeUInt32BE(BINARY_TEXT_MAX_BYTES + 1);
  const reason = `more than ${BINARY_TEXT_MAX_BYTES} bytes`;
  for (const rest of [0, 10, BINARY_TEXT_MAX_BYTES + 1])
    expect(read([head, Buffer.alloc(rest)])).toContain(reason);
  expect(() => splitBinaryMessage(head)).toThrow(reason);
});

test('text is no binary message', () => {
  for (const text of ['', '{}', ' {}', '[', '\ufeff{}'])
    expect(isBinaryMessage(Buffer.from(text))).toBe(false);
});
