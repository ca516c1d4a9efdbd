import { closeSync, mkdirSync, openSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { RunError } from '../failures.ts';
import { cannotWriteFile } from '../file-failures.ts';
import { loadFileLock } from '../file-lock.ts';

/**
 * Runs `change` while this command alone changes files of a folder, which is created if needed. Commands that run at the same time
 * wait for each other, so none of them loses the change of another. Where locks are not available, it runs without one.
 */
export async function withFolderLock<Result>(folder: string, change: () => Promise<Result>): Promise<Result> {
  const fd = openFolder(folder);
  try {
    await lock(fd, folder);
    return await change();
  } finally {
    closeSync(fd);
  }
}

function openFolder(folder: string): number {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return openSync(folder, 'r');
  } catch (error) {
    throw cannotWriteFile(folder, error);
  }
}

/** The lock is on the folder itself, so it leaves no file behind. It ends when the descriptor is closed. */
async function lock(fd: number, folder: string): Promise<void> {
  const tryLock = await loadFileLock();
  const deadline = performance.now() + LOCK_TIMEOUT_MS;
  while (tryLock !== null) {
    try {
      if (tryLock(fd)) return;
    } catch {
      // The file system has no locks.
      return;
    }
    if (performance.now() > deadline) {
      throw new RunError(
        `another command has kept ${folder} locked for ${LOCK_TIMEOUT_MS / 1_000} s; try again`,
      );
    }
    await delay(LOCK_RETRY_MS);
  }
}

/** A change takes milliseconds. A command that was stopped in it keeps the lock. */
const LOCK_TIMEOUT_MS = 10_000;
const LOCK_RETRY_MS = 10;
