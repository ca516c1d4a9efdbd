import { readlinkSync } from 'node:fs';
import { type NativePath, nativePathOfBytes } from '../../files/native-path.ts';

/** A path that leads to what a process has open, in that process. */
export function descriptorPath(fd: number): NativePath {
  return nativePathOfBytes(`/proc/self/fd/${fd}`);
}

/** Where an open file is by now. The kernel knows that by itself: no file system is asked. */
export function placeOf(fd: number): NativePath {
  return nativePathOfBytes(readlinkSync(descriptorPath(fd), 'latin1'));
}
