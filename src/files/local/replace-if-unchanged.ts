import type { BigIntStats } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { TimeLimit } from '../../base/time-limit.ts';
import { refused } from '../errors.ts';
import { COMPARE_TIMEOUT_MS, MAX_COMPARED_BYTES } from '../limits.ts';
import { type NativePath, systemPath } from '../native-path.ts';
import { hashFile } from './hash-file.ts';

/** The last conditional replacement of each file that is in progress. */
const inProgress = new Map<NativePath, Promise<void>>();

/**
 * Calls `replace` if the file has the SHA-256. Conditional replacements of one file in this process run one after the other, so that the
 * first one wins. Another program can still change the file between the last check and the replacement: the system has no
 * call for both.
 */
export async function replaceIfUnchanged(
  target: NativePath,
  sha256: string,
  replace: () => Promise<void>,
): Promise<void> {
  const done = (inProgress.get(target) ?? Promise.resolve()).then(async () => {
    await expectContent(target, sha256);
    await replace();
  });
  const settled = done.catch(() => undefined);
  inProgress.set(target, settled);
  try {
    await done;
  } finally {
    if (inProgress.get(target) === settled) inProgress.delete(target);
  }
}

async function expectContent(target: NativePath, sha256: string): Promise<void> {
  const before = await statFile(target);
  if (before === null) throw changed('it is gone');
  if (before.size > MAX_COMPARED_BYTES) throw changed(`it has more than ${MAX_COMPARED_BYTES} bytes`);
  const limit = new TimeLimit(COMPARE_TIMEOUT_MS, [], { timeUp: () => changed('it takes too long to read') });
  const found = await hashFile(target, FOLLOW, limit.signal).finally(() => limit.end());
  if (found.sha256 !== sha256) throw changed(`its SHA-256 is ${found.sha256}, not ${sha256}`);
  const after = await statFile(target);
  if (after === null || IDENTITY.some((name) => before[name] !== after[name])) {
    throw changed('another program writes it');
  }
}

/** Null when the path is no longer a regular file. */
async function statFile(path: NativePath): Promise<BigIntStats | null> {
  const stats = await lstat(systemPath(path), { bigint: true }).catch(() => null);
  return stats?.isFile() ? stats : null;
}

function changed(how: string): Error {
  return refused(`the file has changed: ${how}; nothing was replaced`);
}

const FOLLOW = { followSymlinks: true } as const;
/** A write changes at least one of these. */
const IDENTITY = ['dev', 'ino', 'size', 'mtimeNs', 'ctimeNs'] as const;
