import { Glob } from '../glob.ts';
import { type NativePath, textOfName } from '../native-path.ts';

/** Whether a path below the root is excluded. */
export type Exclusion = (path: NativePath) => boolean;

/**
 * The paths below `root` that the globs exclude. A trailing slash is ignored. A glob for everything in a directory (`build/**`)
 * also excludes the directory itself.
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
