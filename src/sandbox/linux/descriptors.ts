import { readlinkSync } from 'node:fs';
import { type NativePath, nativePathOfBytes } from '../../files/native-path.ts';

/** The path through which a process reaches its own open file. */
export function descriptorPath(fd: number): NativePath {
  return nativePathOfBytes(`/proc/self/fd/${fd}`);
}

/** The current path of an open file. The kernel answers from memory, without a file system call. */
export function pathOfDescriptor(fd: number): NativePath {
  return nativePathOfBytes(readlinkSync(descriptorPath(fd), 'latin1'));
}
