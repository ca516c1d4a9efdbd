import { mkdtempSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Gives all tests one empty home directory. Their login shells then do not run the profile of the user, which may be slow, and which may
 * leave a lock behind when it is killed: pyenv then blocks every later login shell for a minute. Caches stay where they are.
 */
export default function useEmptyHome(): () => void {
  process.env.XDG_CACHE_HOME ||= join(homedir(), '.cache');
  process.env.HOME = mkdtempSync(join(tmpdir(), 'exec-server-home-'));
  const folder = process.env.HOME;
  return () => rmSync(folder, { recursive: true, force: true });
}
