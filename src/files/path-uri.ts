import { normalize } from 'node:path/posix';
import { parseUrl } from '../base/parse-url.ts';
import { MAX_URI_BYTES } from './limits.ts';
import { type NativePath, nativePathOfBytes } from './native-path.ts';

/**
 * The text is not a path URI (`syntax`), or it names no path on this host (`foreign`). Any party can detect the first; only this
 * host can detect the second.
 */
export class PathUriError extends Error {
  override readonly name = 'PathUriError';
  readonly kind: 'syntax' | 'foreign';

  constructor(kind: 'syntax' | 'foreign', message: string) {
    super(message);
    this.kind = kind;
  }
}

/**
 * The native path of a `file:` URI. It is parsed by the WHATWG URL standard: `file:/tmp`, `FILE:///tmp` and `file://localhost/tmp`
 * are all `/tmp`, dots are resolved by name, and a trailing slash is ignored. Percent escapes are bytes in any encoding.
 */
export function pathFromUri(text: string): NativePath {
  // Fast path: most URIs need no parsing.
  if (CANONICAL.test(text)) return nativePathOfBytes(text.slice(FILE_SCHEME.length));
  const url = parse(text);
  const opaque = /^\/%00\/bad\/path\/([A-Za-z0-9_-]+)$/.exec(url.pathname);
  if (opaque !== null) return pathFromOpaque(url.href, opaque[1]!);
  if (url.pathname.includes('%00')) throw new PathUriError('syntax', notNative(url.href));
  if (url.host !== '') throw new PathUriError('foreign', notNative(url.href));
  if (NAMES_DRIVE.test(url.pathname)) throw new PathUriError('foreign', notNative(upperCaseDrive(url.href)));
  return normalized(decodeEscapes(url.pathname));
}

/**
 * The URI as the URL parser serializes it, whether or not it names a path on this host. It may differ from the result of {@link
 * uriFromPath}.
 */
export function spelledUri(text: string): string {
  return parse(text).href;
}

/**
 * The canonical URI of a native path. A path that would look like a path of another system is wrapped, so that it survives the
 * round trip.
 */
export function uriFromPath(path: NativePath): string {
  if (startsWithDrive(path)) return `${OPAQUE}${Buffer.from(path, 'latin1').toString('base64url')}`;
  return `file://${escapeBytes(path)}`;
}

/** Percent-encodes bytes for a path URI. Separators stay. */
export function escapeBytes(bytes: string): string {
  // Nearly every name needs no escape; the table lookup takes half the time of the replacement.
  if (isPlain(bytes)) return bytes;
  return bytes.replace(
    ESCAPED,
    (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
  );
}

const FILE_SCHEME = 'file://';
/** An absolute path of unreserved characters: no escape, no drive letter, no dot segments, no repeated or trailing slash. */
const CANONICAL = /^file:\/\/(?:\/(?!\.\.?(?:\/|$))[A-Za-z0-9_.+=,@~-]+)+$/;
const OPAQUE = 'file:///%00/bad/path/';
/** A drive letter that is percent-encoded is an ordinary name. */
const NAMES_DRIVE = /^\/+[A-Za-z](?::|%3A)(?:\/|$)/i;
const ESCAPED = /[^A-Za-z0-9!$&'()*+,\-./:;=@[\]^_|~]/g;
const IS_PLAIN = Uint8Array.from({ length: 256 }, (_, byte) =>
  String.fromCharCode(byte).search(ESCAPED) === -1 ? 1 : 0,
);

function isPlain(bytes: string): boolean {
  for (let index = 0; index < bytes.length; index++) {
    if (IS_PLAIN[bytes.charCodeAt(index)] !== 1) return false;
  }
  return true;
}

function parse(text: string): URL {
  // The schema limits characters. A character of several bytes takes the parser as long as that many.
  if (Buffer.byteLength(text) > MAX_URI_BYTES) {
    throw new PathUriError('syntax', `invalid URI: longer than ${MAX_URI_BYTES} bytes`);
  }
  // The URL standard reads a bar after a letter as a drive; the reference reads it as a character in an absolute path.
  const url = parseUrl(text.replace(/^(\s*file:[/\\]{3}[A-Za-z])\|/i, '$1%7C'));
  if (url === null) throw new PathUriError('syntax', invalidUri(text));
  if (url.protocol !== 'file:') {
    throw new PathUriError(
      'syntax',
      `unsupported path URI scheme \`${url.protocol.slice(0, -1)}\`; use file:`,
    );
  }
  // An empty query or fragment shows only as its `?` or `#`.
  const marks = /[?#]/.exec(url.href)?.[0];
  if (marks === '?') throw new PathUriError('syntax', 'query parameters are not allowed in path URIs');
  if (marks === '#') throw new PathUriError('syntax', 'fragments are not allowed in path URIs');
  return url;
}

function invalidUri(text: string): string {
  const hasScheme = /^\s*[A-Za-z][A-Za-z0-9+.-]*:/.test(text);
  return hasScheme
    ? 'invalid URI: invalid international domain name'
    : 'invalid URI: relative URL without a base; expected a file: URI such as file:///tmp';
}

/** Decodes percent escapes to bytes; a percent sign without two hex digits stays. */
export function decodeEscapes(pathname: string): string {
  if (!pathname.includes('%')) return pathname;
  // A request may contain a million escapes, and a replacement by a regular expression takes 0.2 µs for each.
  const bytes = Buffer.from(pathname, 'latin1');
  let length = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!;
    const high = byte === PERCENT ? (HEX_DIGITS[bytes[at + 1] ?? 0] ?? -1) : -1;
    const low = high < 0 ? -1 : (HEX_DIGITS[bytes[at + 2] ?? 0] ?? -1);
    bytes[length++] = low < 0 ? byte : high * 16 + low;
    if (low >= 0) at += 2;
  }
  return bytes.toString('latin1', 0, length);
}

const PERCENT = 0x25;
/** The values of hex digits by character; -1 for other characters. */
const HEX_DIGITS = Int8Array.from({ length: 256 }, (_, code) =>
  '0123456789abcdef'.indexOf(String.fromCharCode(code).toLowerCase()),
);

/** Also resolves the dot segments that appear after a slash is decoded. */
function normalized(path: string): NativePath {
  const single = /\/(?:\/|\.{1,2}(?:\/|$))/.test(path) ? normalize(path) : path;
  return nativePathOfBytes(single.length > 1 && single.endsWith('/') ? single.slice(0, -1) : single);
}

function startsWithDrive(path: string): boolean {
  return /^\/[A-Za-z]:(?:\/|$)/.test(path);
}

function upperCaseDrive(href: string): string {
  return href.replace(
    /^(file:\/\/\/)([a-z])(?=:|%3A)/i,
    (_, start: string, drive: string) => start + drive.toUpperCase(),
  );
}

/** Accepts only what {@link uriFromPath} wraps, so that every path has one URI. */
function pathFromOpaque(href: string, encoded: string): NativePath {
  const path = nativePathOfBytes(Buffer.from(encoded, 'base64url').toString('latin1'));
  if (path.includes('\0') && path.startsWith('/')) {
    throw new PathUriError('foreign', 'file name contained an unexpected NUL byte');
  }
  if (uriFromPath(path) !== href) throw new PathUriError('foreign', notNative(href));
  return path;
}

function notNative(href: string): string {
  return `'${href}' is invalid on '${process.platform === 'darwin' ? 'macos' : process.platform}'`;
}
