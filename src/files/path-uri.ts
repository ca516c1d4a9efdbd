/** A `file:` URI that names no path on this host (`invalid`) or one that cannot be handled (`unsupported`), and why. */
export class PathUriError extends Error {
  override readonly name = 'PathUriError';
  readonly kind: 'invalid' | 'unsupported';

  constructor(message: string, kind: 'invalid' | 'unsupported' = 'invalid') {
    super(message);
    this.kind = kind;
  }
}

/**
 * The absolute native path that a `file:` URI names. The parser is the web's: `file:/tmp`, `FILE:///tmp` and
 * `file://localhost/tmp` are all `/tmp`, dots are resolved, and bytes that are not UTF-8 must not occur here.
 */
export function pathFromUri(text: string): string {
  const url = parseUri(text);
  if (url.protocol !== 'file:') {
    throw new PathUriError(`unsupported path URI scheme \`${url.protocol.slice(0, -1)}\`; use file:`);
  }
  if (url.search !== '' || text.includes('?')) throw new PathUriError('a path URI must not have a query');
  if (url.hash !== '' || text.includes('#')) throw new PathUriError('a path URI must not have a fragment');
  if (url.host !== '')
    throw new PathUriError(`a path URI with a host (${url.host}) is not valid on this machine`);
  if (/^\/[A-Za-z](?::|%3[Aa])(?:\/|$)/.test(url.pathname)) {
    throw new PathUriError('a path URI with a drive letter is not valid on this machine');
  }
  return decodePath(url.pathname);
}

/** The `file:` URI of an absolute native path. */
export function uriFromPath(path: string): string {
  return `file://${path.split('/').map(encodeURIComponent).join('/')}`;
}

function parseUri(text: string): URL {
  if (!/^[A-Za-z][A-Za-z0-9+.-]*:/.test(text)) {
    throw new PathUriError(
      'expected a file: URI such as file:///tmp, got a relative reference or a native path',
    );
  }
  try {
    // Outside the web a backslash is an ordinary character of a file name.
    return new URL(text.replaceAll('\\', '%5C'));
  } catch {
    throw new PathUriError('not a valid URI');
  }
}

function decodePath(encoded: string): string {
  const path = encoded.replace(/^\/+/, '/');
  if (path.includes('%00')) throw new PathUriError('a path URI must not contain a NUL byte');
  try {
    return decodeURIComponent(path.replace(/%(?![0-9A-Fa-f]{2})/g, '%25'));
  } catch {
    throw new PathUriError('a path whose bytes are not UTF-8 is not supported here', 'unsupported');
  }
}
