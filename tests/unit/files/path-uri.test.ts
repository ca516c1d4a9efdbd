import fc from 'fast-check';
import { expect, test } from 'vitest';
import { PathUriError, pathFromUri, uriFromPath } from '../../../src/files/path-uri.ts';

test.each([
  ['file:///tmp', '/tmp'],
  ['file://localhost/tmp', '/tmp'],
  ['file:/tmp', '/tmp'],
  ['file:tmp', '/tmp'],
  ['FILE:///tmp', '/tmp'],
  ['file:///tmp/', '/tmp/'],
  ['file:////tmp', '/tmp'],
  ['file:///', '/'],
  ['file:', '/'],
  ['file:///tmp/../tmp/./', '/tmp/'],
  ['file:///../..', '/'],
  ['file:///a%20b', '/a b'],
  ['file:///a b', '/a b'],
  ['file:///é/%C3%A9/😀', '/é/é/😀'],
  ['file:///tmp%2Fa', '/tmp/a'],
  ['file:///a%3Fb%23c%25d', '/a?b#c%d'],
  ['file:///%zz/100%', '/%zz/100%'],
  ['file:///%25zz', '/%zz'],
  ['file:///tmp\\x', '/tmp\\x'],
  ['file:///a:b/c', '/a:b/c'],
  ['file:///x/C:/y', '/x/C:/y'],
])('%s names %s', (uri, path) => {
  expect(pathFromUri(uri)).toBe(path);
});

test.each([
  ['/tmp', 'expected a file: URI'],
  ['', 'expected a file: URI'],
  ['tmp', 'expected a file: URI'],
  ['./file:', 'expected a file: URI'],
  [' file:///tmp', 'expected a file: URI'],
  ['://tmp', 'expected a file: URI'],
  ['http://x/tmp', 'unsupported path URI scheme `http`'],
  ['C:\\tmp', 'unsupported path URI scheme `c`'],
  ['javascript:alert(1)', 'unsupported path URI scheme `javascript`'],
  ['file://host/tmp', 'with a host (host)'],
  ['file://127.0.0.1/tmp', 'with a host'],
  ['file:///C:/x', 'with a drive letter'],
  ['file:///c|/x', 'with a drive letter'],
  ['file:///C:', 'with a drive letter'],
  ['file:///tmp?x=1', 'must not have a query'],
  ['file:///tmp?', 'must not have a query'],
  ['file:///tmp#f', 'must not have a fragment'],
  ['file:///tmp#', 'must not have a fragment'],
  ['file:///tmp/%00x', 'must not contain a NUL byte'],
  ['file:///tmp/%FF', 'not UTF-8'],
  ['file://u@/tmp', 'not a valid URI'],
  ['file://[/tmp', 'not a valid URI'],
])('%s is refused', (uri, message) => {
  expect(() => pathFromUri(uri)).toThrow(PathUriError);
  expect(() => pathFromUri(uri)).toThrow(message);
});

test.each([
  ['/', 'file:///'],
  ['/tmp', 'file:///tmp'],
  ['/a b/é', 'file:///a%20b/%C3%A9'],
  ['/100%?#', 'file:///100%25%3F%23'],
  ['/a\\b', 'file:///a%5Cb'],
])('%s is written as %s', (path, uri) => {
  expect(uriFromPath(path)).toBe(uri);
});

test('every absolute path in normal form comes back from its URI', () => {
  const segment = fc
    .string({ unit: 'binary', minLength: 1, maxLength: 12 })
    .map((text) => text.replaceAll('/', '_').replaceAll('\0', '_'))
    .filter((text) => text !== '.' && text !== '..');
  const path = fc
    .array(segment, { maxLength: 5 })
    .filter(([first]) => !/^[A-Za-z]:$/.test(first ?? ''))
    .map((segments) => `/${segments.join('/')}`);
  fc.assert(
    fc.property(path, (original) => {
      expect(pathFromUri(uriFromPath(original))).toBe(original);
    }),
    { numRuns: 1_000 },
  );
});

test('any text names an absolute path or is refused with a reason', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ unit: 'binary' }).map((rest) => `file:${rest}`),
    fc
      .string({ unit: fc.constantFrom('/', '\\', '%', '2', 'F', '.', ':', 'C', '?', '#', '@', ' ') })
      .map((rest) => `file:${rest}`),
  );
  fc.assert(
    fc.property(text, (uri) => {
      try {
        expect(pathFromUri(uri)).toMatch(/^\/[^\0]*$/);
      } catch (error) {
        expect(error).toBeInstanceOf(PathUriError);
      }
    }),
    { numRuns: 2_000 },
  );
});
