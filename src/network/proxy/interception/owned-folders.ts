import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { opendir, rm } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * A name for a folder that says which process it belongs to: the pid and the start time, and where these mean something. It is told
 * by the name so that there is no moment in which the folder has no owner.
 */
export function ownedFolderName(): string {
  const place = ownPlace();
  const start = place === null ? null : startOf(process.pid);
  const random = randomBytes(8).toString('hex');
  // Where the system does not tell it belongs to nobody, and stays when the server is killed.
  return start === null ? `${PREFIX}-${random}` : `${PREFIX}-${place}-${process.pid}-${start}-${random}`;
}

/**
 * Removes the folders whose processes are dead. Those of another boot, machine or container stay: whether their processes live
 * cannot be told from here. It never rejects.
 */
export async function removeOrphans(parent: string): Promise<void> {
  const place = ownPlace();
  if (place === null) return;
  try {
    for await (const entry of await opendir(parent)) {
      const [, where, pid, start] = NAME.exec(entry.name) ?? [];
      if (where !== place || !entry.isDirectory() || isAlive(Number(pid), start ?? '')) continue;
      await rm(join(parent, entry.name), { recursive: true, force: true }).catch(() => {});
    }
  } catch {
    // There is none, or it is closed to us; whoever wants to put something there will say so.
  }
}

/** In doubt it is: a process may be there without being visible. */
function isAlive(pid: number, start: string): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
  const now = startOf(pid);
  return now === null || now === start;
}

/** When a process has started, in clock ticks; `dead` for one that only its parent has still to hear of, and null for none. */
function startOf(pid: number): string | null {
  const [, state, threads, start] = STAT.exec(textOf(`/proc/${pid}/stat`) ?? '') ?? [];
  if (start === undefined) return null;
  return state === 'X' || (state === 'Z' && Number(threads) <= 1) ? 'dead' : start;
}

/** In which boot of which system pids and start times are those of this process; null where that is not known. */
function ownPlace(): string | null {
  const boot = textOf('/proc/sys/kernel/random/boot_id');
  // A /proc of another container counts processes in another way.
  if (boot === null || !textOf('/proc/self/stat')?.startsWith(`${process.pid} `)) return null;
  try {
    const spaces = ['pid', 'time'].map((kind) => readlinkSync(`/proc/self/ns/${kind}`));
    return createHash('sha256')
      .update([boot, ...spaces].join())
      .digest('hex')
      .slice(0, PLACE_LENGTH);
  } catch {
    return null;
  }
}

/** The kernel answers at once. */
function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return null;
  }
}

const PREFIX = 'exec-server';
const PLACE_LENGTH = 16;
const NAME = /^exec-server-([0-9a-f]{16})-([1-9][0-9]{0,9})-([0-9]{1,20})-[0-9a-f]{16}$/;

/** The name of the program, in parentheses, may hold anything; the fields behind it are the third and those up to the 22nd. */
const STAT = /^[\s\S]*\) (\S)(?: \S+){16} (\S+) \S+ (\d+) /;
