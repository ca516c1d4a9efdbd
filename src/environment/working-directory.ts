import { nativePathOfText } from '../files/native-path.ts';
import { uriFromPath } from '../files/path-uri.ts';

/** Where this process runs, a `file:` URI; null when somebody has removed that directory. */
export function workingDirectory(): string | null {
  try {
    return uriFromPath(nativePathOfText(process.cwd()));
  } catch {
    return null;
  }
}
