/**
 * Recognizes a placeholder of a sandbox: a sticky bit on an entry that no user may write has no other use. Also recognizes one whose mode
 * the umask or the parent directory has changed. A protected path with such a mode counts as missing if it is empty. A directory must also
 * have a protected name, because only those are created as directories.
 */
export function isPlaceholderMode(mode: number): boolean {
  return (mode & (STICKY | WRITABLE)) === STICKY;
}

const STICKY = 0o1000;
const WRITABLE = 0o222;
