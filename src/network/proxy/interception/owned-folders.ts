import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { opendir, rm } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * A folder name that identifies its owner process: pid, start time, and the boot and namespaces in which these are valid. The owner is
 * in the name, so that the folder is never without one.
 */
export function ownedFolderName(): string {
  const origin = bootAndNamespaces();
  const start = origin === null ? null : startOf(process.pid);
  const random = randomBytes(8).toString('hex');
  // Without this information the folder has no owner and stays when the server is killed.
  return start === null ? `${PREFIX}-${random}` : `${PREFIX}-${origin}-${process.pid}-${start}-${random}`;
}

/**
 * Removes the folders of dead processes. Those of another boot, machine or container stay, because the state of their processes is
 * unknown here. Never rejects.
 */
export async function removeOrphans(parent: string): Promise<void> {
  const origin = bootAndNamespaces();
  if (origin === null) return;
  try {
    for await (const entry of await opendir(parent)) {
      const [, where, pid, start] = NAME.exec(entry.name) ?? [];
      if (where !== origin || !entry.isDirectory() || isAlive(Number(pid), start ?? '')) continue;
      await rm(join(parent, entry.name), { recursive: true, force: true }).catch(() => {});
    }
  } catch {
    // The folder does not exist or is not accessible; creating something in it reports the error.
  }
}

/** True in doubt: a process may exist without being visible. */
function isAlive(pid: number, start: string): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
  const now = startOf(pid);
  return now === null || now === start;
}

/** The start time of a process in clock ticks; `dead` for a zombie, and null without such a process. */
function startOf(pid: number): string | null {
  const [, state, threads, start] = STAT.exec(textOf(`/proc/${pid}/stat`) ?? '') ?? [];
  if (start === undefined) return null;
  return state === 'X' || (state === 'Z' && Number(threads) <= 1) ? 'dead' : start;
}

/** A digest of the boot and the namespaces in which this process's pid and start time are valid; null when unknown. */
function bootAndNamespaces(): string | null {
  const boot = textOf('/proc/sys/kernel/random/boot_id');
  // /proc may belong to another container, with other pids.
  if (boot === null || !textOf('/proc/self/stat')?.startsWith(`${process.pid} `)) return null;
  try {
    const spaces = ['pid', 'time'].map((kind) => readlinkSync(`/proc/self/ns/${kind}`));
    return createHash('sha256')
      .update([boot, ...spaces].join())
      .digest('hex')
      .slice(0, ORIGIN_LENGTH);
  } catch {
    return null;
  }
}

/** Synchronous: these files are served from memory. */
function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return null;
  }
}

const PREFIX = 'exec-server';
const ORIGIN_LENGTH = 16;
const NAME = /^exec-server-([0-9a-f]{16})-([1-9][0-9]{0,9})-([0-9]{1,20})-[0-9a-f]{16}$/;

/** The program name in parentheses may contain anything. The fields after it are the third and those up to the 22nd. See proc_pid_stat(5). */
const STAT = /^[\s\S]*\) (\S)(?: \S+){16} (\S+) \S+ (\d+) /;
