import { mkdirSync, mkdtempSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** A new, empty folder that is not below /tmp, because codex warns about a home there. */
export function temporaryFolder(prefix: string): string {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'exec-server');
  mkdirSync(cache, { recursive: true });
  return mkdtempSync(join(cache, prefix));
}
