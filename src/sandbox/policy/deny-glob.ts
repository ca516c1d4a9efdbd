import { FileError } from '../../files/errors.ts';
import { GlobSet } from '../../files/glob-set.ts';
import {
  isWithin,
  type NativePath,
  nativePathOfBytes,
  textOfName,
  textOfNativePath,
} from '../../files/native-path.ts';
import { SandboxError, unenforceable } from '../errors.ts';
import type { DenyGlob } from './policy.ts';

/**
 * A compiled glob. The part after the fixed prefix is matched below that directory. As in ignore files, a part without a slash matches names
 * at any depth.
 */
export interface PreparedGlob {
  /** The directory where the search starts: the components before the first one with a wildcard. */
  readonly root: NativePath;
  /** How many directory levels below `root` are searched. Null is all. */
  readonly maxDepth: number | null;
  /** Matches paths below `root`, as text. */
  readonly globs: GlobSet;
}

/** Throws SandboxError when the glob is malformed, or would have to be searched for in the whole file system. */
export function prepareGlob(glob: DenyGlob): PreparedGlob {
  let prepared = PREPARED.get(glob);
  if (prepared === undefined) {
    prepared = prepare(glob);
    PREPARED.set(glob, prepared);
  }
  return prepared;
}

/** Whether the glob denies a file at this path. */
export function globMatches(glob: DenyGlob, path: NativePath): boolean {
  const { root, maxDepth, globs } = prepareGlob(glob);
  if (path === root || !isWithin(path, root)) return false;
  const below = path.slice(root.length + 1);
  if (maxDepth !== null && below.split('/').length > maxDepth) return false;
  return globs.matches(textOfName(below), false);
}

/** Each glob is compiled once, because policies are evaluated for many paths. */
const PREPARED = new WeakMap<DenyGlob, PreparedGlob>();

/** A component without wildcards. A backslash escapes the next character. */
const FIXED = /^(?:[^*?[\]{}\\]|\\.)*$/;

function prepare({ pattern, maxDepth }: DenyGlob): PreparedGlob {
  const names = pattern.split('/').filter((name) => name !== '' && name !== '.');
  if (names.includes('..') || pattern.includes('\0')) {
    throw new SandboxError(
      'invalid',
      `the deny pattern \`${textOfNativePath(pattern)}\` has a \`..\` or a NUL; spell the path without it`,
    );
  }
  const fixed = names.findIndex((name) => !FIXED.test(name));
  if (fixed < 0) {
    throw unenforceable(
      `the deny pattern \`${textOfNativePath(pattern)}\` has no wildcard; deny the path with an entry of the type \`path\``,
    );
  }
  if (fixed === 0) {
    throw unenforceable(
      `the deny pattern \`${textOfNativePath(pattern)}\` would be looked for on the whole disk; begin it with a directory`,
    );
  }
  const root = names.slice(0, fixed).map((name) => name.replace(/\\(.)/g, '$1'));
  // Names are compared as text, not as bytes, so that `?` matches a character of several bytes.
  const text = textOfName(names.slice(fixed).join('/'));
  return { root: nativePathOfBytes(`/${root.join('/')}`), maxDepth, globs: parse(text, pattern) };
}

function parse(text: string, pattern: NativePath): GlobSet {
  try {
    return GlobSet.parse([text]);
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    throw new SandboxError(
      'invalid',
      `the deny pattern \`${textOfNativePath(pattern)}\` is not well formed: ${error.message}`,
    );
  }
}
