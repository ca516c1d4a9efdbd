import { FileError } from '../../files/errors.ts';
import { Glob } from '../../files/glob.ts';
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
  /** Whether the path components below `root`, one byte per character, match. */
  matches(names: readonly string[]): boolean;
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
  const { root, maxDepth, matches } = prepareGlob(glob);
  if (path === root || !isWithin(path, root)) return false;
  const names = path.slice(root.length + 1).split('/');
  return (maxDepth === null || names.length <= maxDepth) && matches(names);
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
  const globs = parse(names.slice(fixed).join('/'), pattern);
  return {
    root: nativePathOfBytes(`/${root.join('/')}`),
    maxDepth,
    matches: (path) => {
      const text = path.map(textOfName);
      return globs.some((glob) => glob.matches(text, false));
    },
  };
}

/** Compares names as text, not as bytes, so that `?` matches a character of several bytes. */
function parse(rest: string, pattern: NativePath): Glob[] {
  try {
    return Glob.parseAll([textOfName(rest)]);
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    throw new SandboxError(
      'invalid',
      `the deny pattern \`${textOfNativePath(pattern)}\` is not well formed: ${error.message}`,
    );
  }
}
