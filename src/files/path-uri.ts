import { normalize } from 'node:path/posix';
import { type NativePath, nativePathOfBytes } from './native-path.ts';

/**
 * A text that is no path URI at all (`syntax`), or one that names no path on this host (`foreign`): the first can be seen by
 * anybody, the second only here.
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
 * The native path that a `file:` URI names. The parser is the web's: `file:/tmp`, `FILE:///tmp` and `file://localhost/tmp` are all
 * `/tmp`, dots are resolved by name, and a slash at the end says nothing. Escapes stand for bytes, whatever encoding they are in.
 */
export function pathFromUri(text: string): NativePath {
  // Most are spelled in a way that leaves nothing to parse.
  if (SPELLED_OUT.test(text)) return nativePathOfBytes(text.slice(FILE_SCHEME.length));
  const url = parse(text);
  const opaque = /^\/%00\/bad\/path\/([A-Za-z0-9_-]+)$/.exec(url.pathname);
  if (opaque !== null) return pathFromOpaque(url.href, opaque[1]!);
  if (url.pathname.includes('%00')) throw new PathUriError('syntax', notNative(url.href));
  if (url.host !== '') throw new PathUriError('foreign', notNative(url.href));
  if (NAMES_DRIVE.test(url.pathname)) throw new PathUriError('foreign', notNative(upperCaseDrive(url.href)));
  return tidy(decodeEscapes(url.pathname));
}

/** The URI as its parser spells it, whether or not it names a path on this host. It may differ from {@link uriFromPath}'s. */
export function spelledUri(text: string): string {
  return parse(text).href;
}

/** The one URI of a native path. A path that would read as a foreign one is wrapped, so that it comes back unharmed. */
export function uriFromPath(path: NativePath): string {
  if (startsWithDrive(path)) return `${OPAQUE}${Buffer.from(path, 'latin1').toString('base64url')}`;
  return `file://${escapeBytes(path)}`;
}

/** Bytes as they stand in a path URI; separators stay as they are. */
export function escapeBytes(bytes: string): string {
  // Nearly every name stays as it is, which a table tells in half the time.
  if (isPlain(bytes)) return bytes;
  return bytes.replace(
    ESCAPED,
    (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
  );
}

const FILE_SCHEME = 'file://';
/** From the root, with names of harmless characters: no escape, no colon of a drive, no dots that lead elsewhere, no slash too many. */
const SPELLED_OUT = /^file:\/\/(?:\/(?!\.\.?(?:\/|$))[A-Za-z0-9_.+=,@~-]+)+$/;
const OPAQUE = 'file:///%00/bad/path/';
/** A letter that is spelled as an escape makes a name like any other. */
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
  const url = parseUrl(text);
  if (url.protocol !== 'file:') {
    throw new PathUriError(
      'syntax',
      `unsupported path URI scheme \`${url.protocol.slice(0, -1)}\`; use file:`,
    );
  }
  // An empty query or fragment leaves no trace but its mark.
  const marks = /[?#]/.exec(url.href)?.[0];
  if (marks === '?') throw new PathUriError('syntax', 'query parameters are not allowed in path URIs');
  if (marks === '#') throw new PathUriError('syntax', 'fragments are not allowed in path URIs');
  return url;
}

function parseUrl(text: string): URL {
  try {
    // The web takes a bar behind a letter for a drive; in a path that is spelled out from the root clients know it as a character.
    return new URL(text.replace(/^(\s*file:[/\\]{3}[A-Za-z])\|/i, '$1%7C'));
  } catch {
    const hasScheme = /^\s*[A-Za-z][A-Za-z0-9+.-]*:/.test(text);
    throw new PathUriError(
      'syntax',
      hasScheme
        ? 'invalid URI: invalid international domain name'
        : 'invalid URI: relative URL without a base; expected a file: URI such as file:///tmp',
    );
  }
}

/** Escapes become bytes; a percent sign that begins none stands for itself. */
function decodeEscapes(pathname: string): string {
  if (!pathname.includes('%')) return pathname;
  return pathname.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
}

/** Dots that came to light with a decoded slash are resolved like the others. */
function tidy(path: string): NativePath {
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

/** Only what {@link uriFromPath} wraps may come wrapped: every path has one spelling. */
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
