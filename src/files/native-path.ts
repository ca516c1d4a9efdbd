import { basename, dirname } from 'node:path/posix';

declare const nativePath: unique symbol;

/**
 * An absolute path as bytes, one per character, as Linux stores it. Names need not be UTF-8, and this type preserves them. The
 * separators are ASCII, so joining and splitting work as on any string.
 */
export type NativePath = string & { readonly [nativePath]: true };

/** Treats a string of bytes, one per character, as a path. */
export function nativePathOfBytes(bytes: string): NativePath {
  return bytes as NativePath;
}

/** The path for a text, encoded as UTF-8. */
export function nativePathOfText(text: string): NativePath {
  return nativePathOfBytes(isAscii(text) ? text : Buffer.from(text).toString('latin1'));
}

/** The path as readable text. Bytes that are not UTF-8 become U+FFFD. */
export function textOfNativePath(path: NativePath): string {
  return textOfName(path);
}

/** A name or path of bytes as readable text. Bytes that are not UTF-8 become U+FFFD. */
export function textOfName(bytes: string): string {
  return isAscii(bytes) ? bytes : Buffer.from(bytes, 'latin1').toString();
}

/** The path in the form that `node:fs` takes. */
export function systemPath(path: NativePath): string | Buffer {
  return isAscii(path) ? path : Buffer.from(path, 'latin1');
}

/** The entry `name`, in bytes, of a directory. */
export function childPath(directory: NativePath, name: string): NativePath {
  return nativePathOfBytes(directory === '/' ? `/${name}` : `${directory}/${name}`);
}

export function parentPath(path: NativePath): NativePath {
  return nativePathOfBytes(dirname(path));
}

/** The last name of the path as bytes; empty for the root. */
export function lastName(path: NativePath): string {
  return basename(path);
}

/** Whether `path` is `ancestor` or is below it. Compares names only. */
export function isWithin(path: NativePath, ancestor: NativePath): boolean {
  if (path === ancestor || ancestor === '/') return true;
  return path.charCodeAt(ancestor.length) === SLASH && path.startsWith(ancestor);
}

const SLASH = 0x2f;
const ASCII = /^[\x00-\x7f]*$/;

function isAscii(text: string): boolean {
  return ASCII.test(text);
}
