import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, vi } from 'vitest';

/**
 * Gives the tests of a file an empty home directory. Their login shells then do not run the profile of the user, which may be slow and
 * may leave a lock behind when it is killed. Call it before anything is started.
 */
export function useEmptyHome(): void {
  const folder = mkdtempSync(join(tmpdir(), 'exec-server-home-'));
  beforeAll(() => {
    vi.stubEnv('HOME', folder);
  });
  afterAll(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true, force: true });
  });
}
