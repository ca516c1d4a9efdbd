import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { base64ByteLength, decodeBase64, encodeBase64 } from '../../../src/client/base64.ts';

const node = globalThis.Buffer;
afterEach(() => {
  globalThis.Buffer = node;
});

/** Runs the check as Node does it and as a browser does it. */
function both(name: string, check: () => void): void {
  describe(name, () => {
    test('with Buffer', check);
    test('without Buffer', () => {
      Reflect.deleteProperty(globalThis, 'Buffer');
      check();
    });
  });
}

both('any bytes come back', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      const text = encodeBase64(bytes);
      expect(text).toBe(node.from(bytes).toString('base64'));
      expect(base64ByteLength(text)).toBe(bytes.length);
      expect([...(decodeBase64(text) ?? [])]).toEqual([...bytes]);
    }),
  );
});

both('more than one block comes back', () => {
  const bytes = new Uint8Array(100_001).map((_, index) => index * 7);
  const text = encodeBase64(bytes);
  expect(text).toBe(node.from(bytes).toString('base64'));
  expect(node.from(decodeBase64(text)!).equals(node.from(bytes))).toBe(true);
});

both('a view into a larger buffer is encoded alone', () => {
  expect(encodeBase64(new Uint8Array([1, 2, 3, 4, 5]).subarray(1, 4))).toBe('AgME');
});

both('what no encoder writes is refused', () => {
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
  ]) {
    expect(decodeBase64(text), text).toBeNull();
  }
});
