import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { base64ByteLength, decodeBase64, encodeBase64 } from '../../../src/base/base64.ts';

const node = globalThis.Buffer;
afterEach(() => {
  globalThis.Buffer = node;
});

/** Runs the check as in Node and as in a browser. */
function both(name: string, check: () => void): void {
  describe(name, () => {
    test('with Buffer', check);
    test('without Buffer', () => {
      Reflect.deleteProperty(globalThis, 'Buffer');
      check();
    });
  });
}

both('decodeBase64 reverses encodeBase64', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      const text = encodeBase64(bytes);
      expect(text).toBe(node.from(bytes).toString('base64'));
      expect(base64ByteLength(text)).toBe(bytes.length);
      expect([...(decodeBase64(text) ?? [])]).toEqual([...bytes]);
    }),
  );
});

both('encodeBase64 joins several blocks', () => {
  const bytes = new Uint8Array(100_001).map((_, index) => index * 7);
  const text = encodeBase64(bytes);
  expect(text).toBe(node.from(bytes).toString('base64'));
  expect(node.from(decodeBase64(text)!).equals(node.from(bytes))).toBe(true);
});

both('encodeBase64 encodes only the view of a larger buffer', () => {
  expect(encodeBase64(new Uint8Array([1, 2, 3, 4, 5]).subarray(1, 4))).toBe('AgME');
});

both('decodeBase64 rejects what no encoder writes', () => {
  for (const text of [
    'A',
    'AA',
    'AAA',
    'AA=A',
    '=AAA',
    'AA==AAAA',
    'A A=',
    'AAA\n',
    'QR==',
    'QUJ=',
    '-_-_',
    '====',
    'é===',
    // Its low byte is that of an A, and Node takes it for one.
    'YWJj\u0141AAA',
  ]) {
    expect(decodeBase64(text), text).toBeNull();
  }
});
