import { closeSync } from 'node:fs';
import type { Libc } from '../../native/libc.ts';
import { nativeUnavailableReason } from '../../native/native-support.ts';

/** The exclusive use of a file. It ends with `release`, or with this process. */
export interface FileClaim {
  release(): void;
}

/**
 * Claims an open file for this caller alone, across processes (flock). Returns null when another caller has it. Where there are no such
 * locks, as in a sandbox or on some network file systems, each caller gets a claim.
 */
export async function claimFile(fd: number): Promise<FileClaim | null> {
  calls ??= loadCalls();
  const libc = await calls;
  if (libc === null) return UNLOCKED;
  // The lock outlasts the descriptor of the caller, which is closed before the file gets its name.
  const own = libc.duplicate(fd);
  try {
    if (libc.lock(own, 'exclusive')) return new LockedFile(own);
  } catch {
    closeSync(own);
    return UNLOCKED;
  }
  closeSync(own);
  return null;
}

class LockedFile implements FileClaim {
  #fd: number | null;

  constructor(fd: number) {
    this.#fd = fd;
  }

  release(): void {
    if (this.#fd === null) return;
    closeSync(this.#fd);
    this.#fd = null;
  }
}

const UNLOCKED: FileClaim = { release: () => {} };

let calls: Promise<Pick<Libc, 'lock' | 'duplicate'> | null> | null = null;

async function loadCalls(): Promise<Pick<Libc, 'lock' | 'duplicate'> | null> {
  if (nativeUnavailableReason(true) !== null) return null;
  try {
    const { loadLibc } = await import('../../native/libc.ts');
    return loadLibc();
  } catch {
    return null;
  }
}
