import { rmSync } from 'node:fs';

/**
 * Removes a folder in which killed processes may create files until they have ended: a shell writes its history. Node's own retries
 * remove only the files that were there at first.
 */
export function removeFolder(path: string): void {
  for (let attempt = 1; ; attempt++) {
    try {
      rmSync(path, { recursive: true, force: true });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY' || attempt === MAX_ATTEMPTS) throw error;
    }
    Atomics.wait(NEVER_NOTIFIED, 0, 0, ATTEMPT_INTERVAL_MS);
  }
}

const MAX_ATTEMPTS = 250;
const ATTEMPT_INTERVAL_MS = 20;
const NEVER_NOTIFIED = new Int32Array(new SharedArrayBuffer(4));
