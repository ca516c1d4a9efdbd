import { nativeUnavailableReason } from '../native/native-support.ts';
import type { FileLock } from '../relay/service/store/registration-file.ts';

/** Loads a lock that dies with this process, which Node does not offer. Null where the system cannot be asked for it. */
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
