import { type NativePath, nativePathOfText } from '../../../src/files/native-path.ts';

/** A path of a test. */
export function native(path: string): NativePath {
  return nativePathOfText(path);
}
