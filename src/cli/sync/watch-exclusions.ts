import { textOfName } from '../../files/native-path.ts';
import { MAX_GLOB_CHARACTERS, MAX_GLOBS } from './limits.ts';

/**
 * Globs for ignored paths, so that the watcher does not watch them: `node_modules` alone can have more directories than the system can
 * watch. Changes of paths beyond the limits of a watch are reported and then dropped.
 */
export function watchExclusions(ignored: readonly string[]): string[] {
  const globs: string[] = [];
  let characters = 0;
  for (const path of ignored) {
    const text = textOfName(path);
    // A name that is not UTF-8 has no glob.
    if (text.includes('\ufffd')) continue;
    const glob = `/${text.replace(/[\\*?[\]{},!]/g, '\\$&')}`;
    characters += glob.length;
    if (globs.length === MAX_GLOBS || characters > MAX_GLOB_CHARACTERS) break;
    globs.push(glob);
  }
  return globs;
}
