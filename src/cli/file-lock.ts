import { nativeUnavailableReason } from '../native/native-support.ts';
import type { FileLock } from '../relay/service/store/registration-file.ts';

/** Loads a file lock that ends with this process (flock), which Node does not provide. Returns null where it is not available. */
export async function loadFileLock(): Promise<FileLock | null> {
  if (nativeUnavailableReason(true) !== null) return null;
  try {
    const { loadLibc } = await import('../native/libc.ts');
    const libc = loadLibc();
    return (fd) => libc.lock(fd, 'exclusive');
  } catch {
    return null;
  }
}
