import { encodeBase64 } from '../base/base64.ts';
import { wrong } from './connection/option-checks.ts';
import { ClientError } from './errors.ts';

/**
 * A path on the executor: a native path such as `/srv/app`, `src/main.ts` or `C:\app`, or a `file:` URI as text or URL. A relative path
 * is relative to the executor's default directory. A text that begins with `file:` is a URI; write `./file:x` for such a name.
 */
export type PathLike = string | URL;

/**
 * Returns the `file:` URI of a path. `defaultCwd` returns the directory that native paths are relative to; it is not called for a URI.
 * Rejects with a ClientError of kind `invalidInput`.
 */
export async function fileUriOf(path: PathLike, defaultCwd: () => Promise<string | null>): Promise<string> {
  // An unset variable must not mean the whole working directory.
  if (path === '') throw emptyPath();
  const isUri = typeof path !== 'string' || FILE_URI.test(path);
  return toFileUri(path, isUri ? null : await defaultCwd());
}

/**
 * Returns the `file:` URI of a path. Dot segments are resolved by name, as in every URI. A base with a drive letter means Windows paths;
 * without a base the path itself decides, and must be absolute. Throws ClientError of kind `invalidInput`.
 */
export function toFileUri(path: PathLike, baseUri: string | null): string {
  if (path === '') throw emptyPath();
  if (typeof path !== 'string' || FILE_URI.test(path)) return checkedUri(path);
  if (path.includes('\0')) throw invalidPath('a path cannot contain NUL', 'remove the NUL character');
  const base = baseUri === null ? absoluteBase(path) : new URL(checkedUri(baseUri));
  return joined(base, path);
}

/**
 * Returns the native path of a `file:` URI, in the form of the system that the URI belongs to. A URI whose path is not UTF-8 text is
 * returned unchanged.
 */
export function toNativePath(uri: string): string {
  try {
    const url = new URL(uri);
    const path = decodeURIComponent(url.pathname);
    if (url.protocol !== 'file:' || path.includes('\0')) return uri;
    if (url.host !== '') return `\\\\${url.host}${path.replaceAll('/', '\\')}`;
    return DRIVE.test(path) ? path.slice(1).replaceAll('/', '\\') : path;
  } catch {
    return uri;
  }
}

const FILE_URI = /^file:/i;
const DRIVE = /^\/([A-Za-z]:)(?=\/|$)/;
const WINDOWS_DRIVE = /^([A-Za-z]:)(?=[\\/]|$)/;
const UNC = /^[\\/]{2}([^\\/]+)(?=[\\/])/;

function checkedUri(path: PathLike): string {
  // Not `instanceof`: the URL may come from another realm.
  if (typeof path !== 'string' && typeof (path as Partial<URL> | null | undefined)?.href !== 'string')
    throw wrong('the path is', path, 'a text or a URL');
  const text = String(path);
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url?.protocol !== 'file:' || /[?#]/.test(url.href)) {
    const hint = 'write it as file:///PATH, or pass a native path';
    throw invalidPath(`'${text}' is not a file: URI of a path`, hint);
  }
  return text;
}

/** The root of an absolute path. Throws for a relative one. */
function absoluteBase(path: string): URL {
  const drive = WINDOWS_DRIVE.exec(path)?.[1];
  if (drive !== undefined) return new URL(`file:///${drive}/`);
  if (path.startsWith('\\\\')) return new URL('file:///C:/');
  if (path.startsWith('/')) return new URL('file:///');
  throw invalidPath(
    `'${path}' is a relative path, and the executor reports no default directory`,
    'pass an absolute path',
  );
}

function joined(base: URL, path: string): string {
  const drive = DRIVE.exec(base.pathname)?.[1];
  const isWindows = drive !== undefined || base.host !== '';
  const share = isWindows ? UNC.exec(path)?.[1] : undefined;
  const host = share ?? base.host;
  const ownDrive = isWindows ? WINDOWS_DRIVE.exec(path)?.[1] : undefined;
  const rest = path.slice(share !== undefined ? 2 + share.length : (ownDrive?.length ?? 0));
  const root = share !== undefined || !isWindows ? [] : [ownDrive ?? drive ?? []].flat();
  const isAbsolute = (isWindows ? /^[\\/]/ : /^\//).test(rest) || ownDrive !== undefined;
  const segments = isAbsolute ? [...root] : base.pathname.split('/').filter((part) => part !== '');
  for (const part of rest.split(isWindows ? /[\\/]/ : '/')) {
    if (part === '' || part === '.') continue;
    if (part === '..') segments.splice(Math.max(segments.length - 1, root.length));
    else segments.push(escaped(part));
  }
  if (!isWindows && /^[A-Za-z]%3A$/.test(segments[0] ?? '')) return opaqueUri(segments);
  return `file://${ownDrive === undefined ? host : ''}/${segments.join('/')}`;
}

/** A POSIX path that begins like a drive. Servers accept it only in this form, because its plain URI means a drive. */
function opaqueUri(segments: readonly string[]): string {
  const bytes = new TextEncoder().encode(`/${segments.map(decodeURIComponent).join('/')}`);
  const encoded = encodeBase64(bytes).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
  return `file:///%00/bad/path/${encoded}`;
}

function escaped(segment: string): string {
  try {
    return encodeURIComponent(segment);
  } catch {
    throw invalidPath('a path must be valid text', 'remove the unpaired surrogate');
  }
}

/** The error for an empty path. */
export function emptyPath(): ClientError {
  return invalidPath('the path is empty', "pass '.' for the default directory");
}

function invalidPath(message: string, hint: string): ClientError {
  return new ClientError('invalidInput', message, { hint });
}
