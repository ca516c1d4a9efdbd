import { normalize } from 'node:path/posix';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type NativePath, nativePathOfBytes, nativePathOfText } from '../../../src/files/native-path.ts';
import { PathUriError, pathFromUri, uriFromPath } from '../../../src/files/path-uri.ts';
import { ANY_CHARACTER } from '../../support/any-character.ts';

test.each([
  ['file:///tmp', '/tmp'],
  ['file://localhost/tmp', '/tmp'],
  ['FILE://LocalHost/tmp', '/tmp'],
  ['file:/tmp', '/tmp'],
  ['file:tmp', '/tmp'],
  ['file:///tmp/', '/tmp'],
  ['file:////tmp', '/tmp'],
  ['file:///tmp//a///b', '/tmp/a/b'],
  ['file:///', '/'],
  ['file:', '/'],
  ['file:///tmp/../tmp/./', '/tmp'],
  ['file:///tmp/%2e%2e/a', '/a'],
  ['file:///../..', '/'],
  ['file:///a%20b', '/a b'],
  ['file:///a b', '/a b'],
  ['  file:///tmp', '/tmp'],
  ['file:///t\tm\np', '/tmp'],
  ['file:///é/%C3%A9/😀', '/é/é/😀'],
  ['file:///tmp%2Fa', '/tmp/a'],
  ['file:///tmp/d%2F..%2Fa', '/tmp/a'],
  ['file:///tmp/d%2F..', '/tmp'],
  ['file:///tmp/.%2F/a..b/..c', '/tmp/a..b/..c'],
  ['file:///a%3Fb%23c%25d', '/a?b#c%d'],
  ['file:///%zz/100%', '/%zz/100%'],
  ['file:///%25zz', '/%zz'],
  ['file:///tmp\\x', '/tmp/x'],
  ['file:///tmp%5Cx', '/tmp\\x'],
  ['file:///a:b/c', '/a:b/c'],
  ['file:///x/C:/y', '/x/C:/y'],
  ['file:///C|/x', '/C|/x'],
  ['file:///%43:/x', '/C:/x'],
  ['file:///C:%2Fx', '/C:/x'],
  ['file:///%00/bad/path/L0M6', '/C:'],
  ['file:///%00/bad/path/L0M6L3p6', '/C:/zz'],
])('%s names %s', (uri, path) => {
  expect(pathFromUri(uri)).toBe(nativePathOfText(path));
});

test('percent escapes are bytes in any encoding', () => {
  expect(pathFromUri('file:///%FF%FE/%c3')).toBe('/\xff\xfe/\xc3');
});

test.each([
  ['/tmp', 'syntax', 'invalid URI: relative URL without a base; expected a file: URI such as file:///tmp'],
  ['', 'syntax', 'invalid URI: relative URL without a base; expected a file: URI such as file:///tmp'],
  ['tmp', 'syntax', 'invalid URI: relative URL without a base; expected a file: URI such as file:///tmp'],
  ['//x/y', 'syntax', 'invalid URI: relative URL without a base; expected a file: URI such as file:///tmp'],
  ['./file:', 'syntax', 'invalid URI: relative URL without a base; expected a file: URI such as file:///tmp'],
  ['http://x/tmp', 'syntax', 'unsupported path URI scheme `http`; use file:'],
  ['C:\\tmp', 'syntax', 'unsupported path URI scheme `c`; use file:'],
  ['javascript:alert(1)', 'syntax', 'unsupported path URI scheme `javascript`; use file:'],
  ['file://u@server/a', 'syntax', 'invalid URI: invalid international domain name'],
  ['file://server:80/a', 'syntax', 'invalid URI: invalid international domain name'],
  ['file://[/tmp', 'syntax', 'invalid URI: invalid international domain name'],
  ['file:///tmp?x=1', 'syntax', 'query parameters are not allowed in path URIs'],
  ['file:///tmp?', 'syntax', 'query parameters are not allowed in path URIs'],
  ['file:///tmp?#', 'syntax', 'query parameters are not allowed in path URIs'],
  ['file:///tmp#f', 'syntax', 'fragments are not allowed in path URIs'],
  ['file:///tmp#', 'syntax', 'fragments are not allowed in path URIs'],
  ['file:///tmp/%00x', 'syntax', "'file:///tmp/%00x' is invalid on 'linux'"],
  ['file://server', 'foreign', "'file://server/' is invalid on 'linux'"],
  ['file://127.0.0.1/tmp', 'foreign', "'file://127.0.0.1/tmp' is invalid on 'linux'"],
  ['file:///C:/x', 'foreign', "'file:///C:/x' is invalid on 'linux'"],
  ['file:///c:/x', 'foreign', "'file:///C:/x' is invalid on 'linux'"],
  ['file:///C%3A/x', 'foreign', "'file:///C%3A/x' is invalid on 'linux'"],
  ['file:///C:', 'foreign', "'file:///C:' is invalid on 'linux'"],
  ['file:/c|', 'foreign', "'file:///C:' is invalid on 'linux'"],
  ['file:c|/..', 'foreign', "'file:///C:/' is invalid on 'linux'"],
  ['file://c|/x', 'foreign', "'file:///C:/x' is invalid on 'linux'"],
  ['file:////C:/x', 'foreign', "'file:////C:/x' is invalid on 'linux'"],
  ['file:///%00/bad/path/L3RtcA', 'foreign', "'file:///%00/bad/path/L3RtcA' is invalid on 'linux'"],
  ['file:///%00/bad/path/L0M6AA', 'foreign', 'file name contained an unexpected NUL byte'],
  ['file:///%00/bad/path/', 'syntax', "'file:///%00/bad/path/' is invalid on 'linux'"],
  ['file:///%00/bad/other/L0M6', 'syntax', "'file:///%00/bad/other/L0M6' is invalid on 'linux'"],
])('rejects %s', (uri, kind, message) => {
  expect(() => pathFromUri(uri)).toThrow(new PathUriError(kind as 'syntax' | 'foreign', message));
});

test.each([
  ['/', 'file:///'],
  ['/tmp', 'file:///tmp'],
  ['/a b/é', 'file:///a%20b/%C3%A9'],
  ['/100%?#', 'file:///100%25%3F%23'],
  ['/a\\b', 'file:///a%5Cb'],
  ['/C:', 'file:///%00/bad/path/L0M6'],
  ['/C|/x', 'file:///C|/x'],
  ['/x/C:', 'file:///x/C:'],
])('%s becomes %s', (path, uri) => {
  expect(uriFromPath(nativePathOfText(path))).toBe(uri);
});

test('unreserved bytes are not escaped and all others are', () => {
  const printable = Array.from({ length: 95 }, (_, index) => String.fromCharCode(0x20 + index));
  const kept = printable.filter((character) =>
    uriFromPath(nativePathOfBytes(`/${character}`)).endsWith(`/${character}`),
  );
  expect(kept.join('')).toBe(
    "!$&'()*+,-./0123456789:;=@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz|~",
  );
  expect(uriFromPath(nativePathOfBytes('/\x01\x7f\x80\xff'))).toBe('file:///%01%7F%80%FF');
});

/** Names of arbitrary bytes, as a file system may hold them. */
const name = fc
  .uint8Array({ minLength: 1, maxLength: 12 })
  .map((bytes) => Buffer.from(bytes).toString('latin1').replaceAll('/', '_').replaceAll('\0', '_'))
  .filter((text) => text !== '.' && text !== '..');
const drive = fc.constantFrom('C:', 'z:', 'C|', 'Q');
const path = fc
  .tuple(fc.oneof(name, drive), fc.array(name, { maxLength: 4 }))
  .map(([first, rest]): NativePath => nativePathOfBytes(`/${[first, ...rest].join('/')}`));

test('every normalized path survives the round trip through its URI', () => {
  fc.assert(
    fc.property(path, (original) => {
      expect(pathFromUri(uriFromPath(original))).toBe(original);
    }),
    { numRuns: 2_000 },
  );
});

test('the URI of a path is canonical after one round trip', () => {
  const text = fc
    .string({ unit: fc.constantFrom(...'/\\%2Fe.:C|ab é~[]^ ') })
    .map((rest) => `file:///${rest}`);
  fc.assert(
    fc.property(text, (uri) => {
      let canonical: string;
      try {
        canonical = uriFromPath(pathFromUri(uri));
      } catch {
        return;
      }
      expect(uriFromPath(pathFromUri(canonical))).toBe(canonical);
    }),
    { numRuns: 2_000 },
  );
});

test('the fast path agrees with the URL parser', () => {
  const text = fc
    .string({ unit: fc.constantFrom(...'//...aB_+=,@~-'), maxLength: 12 })
    .map((rest) => `file:///${rest}`);
  fc.assert(
    fc.property(text, (uri) => {
      const parsed = normalize(new URL(uri).pathname).replace(/(?<=.)\/$/, '');
      expect(pathFromUri(uri)).toBe(parsed);
    }),
    { numRuns: 3_000 },
  );
});

test('any text is an absolute path or is rejected with a reason', () => {
  const text = fc.oneof(
    fc.string({ unit: ANY_CHARACTER }),
    fc.string({ unit: ANY_CHARACTER }).map((rest) => `file:${rest}`),
    fc
      .string({
        unit: fc.constantFrom('/', '\\', '%', '0', '2', 'F', '.', ':', 'C', '|', '?', '#', '@', ' '),
      })
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
    { numRuns: 3_000 },
  );
});
