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
 * A pattern that is ready to be matched. What follows its fixed beginning is a glob below that directory: as in ignore files, one
 * without a slash matches names at any depth.
 */
export interface PreparedGlob {
  /** The directory that the search starts in: the names before the first one that is a pattern. */
  readonly root: NativePath;
  /** How many directories below `root` are looked through; null is all. */
  readonly maxDepth: number | null;
  /** Whether the names below `root`, in bytes, match as a path. */
  matches(names: readonly string[]): boolean;
}

/** Throws SandboxError when the pattern is not well formed, or would have to be looked for everywhere. */
export function prepareGlob(glob: DenyGlob): PreparedGlob {
  let prepared = PREPARED.get(glob);
  if (prepared === undefined) {
    prepared = prepare(glob);
    PREPARED.set(glob, prepared);
  }
  return prepared;
}

/** Whether the pattern denies a file of this path. */
export function globMatches(glob: DenyGlob, path: NativePath): boolean {
  const { root, maxDepth, matches } = prepareGlob(glob);
  if (path === root || !isWithin(path, root)) return false;
  const names = path.slice(root.length + 1).split('/');
  return (maxDepth === null || names.length <= maxDepth) && matches(names);
}

/** Policies are asked about many paths; their patterns are taken apart once. */
const PREPARED = new WeakMap<DenyGlob, PreparedGlob>();

/** A name without wildcards; a backslash takes the next character as it is. */
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

/** Patterns are texts, so names are compared as texts: what stands for one character is one character of several bytes, too. */
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
