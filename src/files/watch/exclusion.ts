import { Glob } from '../glob.ts';
import { type NativePath, textOfName } from '../native-path.ts';

/** Whether a path below the root is left out. */
export type Exclusion = (path: NativePath) => boolean;

/**
 * What the globs leave out below `root`. A slash at the end says nothing here, and who excludes everything in a directory
 * (`build/**`) excludes the directory too.
 */
export function exclusionBelow(root: NativePath, globs: readonly string[]): Exclusion {
  if (globs.length === 0) return () => false;
  const parsed = Glob.parseAll(globs.map((glob) => glob.replace(/(?<=[^/*])\/\*\*$/, '')));
  const start = root === '/' ? 1 : root.length + 1;
  return (path) => {
    const names = textOfName(path.slice(start)).split('/');
    return parsed.some((glob) => glob.matches(names, true));
  };
}
