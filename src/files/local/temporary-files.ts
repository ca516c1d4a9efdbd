import { createHash, randomBytes } from 'node:crypto';
import { lstat, readdir, readFile, readlink, unlink } from 'node:fs/promises';
import {
  PART_MAX_IDLE_MS,
  SWEEP_CACHE_DIRECTORIES,
  TEMPORARY_MAX_IDLE_MS,
  TEMPORARY_STEM_BYTES,
  TEMPORARY_SWEEP_INTERVAL_MS,
} from '../limits.ts';
import { childPath, type NativePath, systemPath } from '../native-path.ts';

/**
 * The name of an unfinished file: `.NAME.exec-server-ORIGIN-PID-START-RANDOM.tmp`. NAME is the beginning of the final name. ORIGIN
 * identifies the boot and the pid namespace in which PID is this process. START is its start time in clock ticks since boot. A
 * killed process leaves such a file behind; its name shows what it is and whether it may be removed.
 */
export async function temporaryName(name: string): Promise<string> {
  const { origin, startTime } = await thisProcess();
  const random = randomBytes(4).toString('hex');
  return `.${stemOf(name)}.exec-server-${origin}-${process.pid}-${startTime}-${random}.tmp`;
}

/** The name of an unfinished file that a later replacement with the same key continues: `.NAME.exec-server-KEY.part`. */
export function partName(name: string, key: string): string {
  return `.${stemOf(name)}.exec-server-${key}.part`;
}

/** Removes stale temporary files from the directory, with a minimum interval because reading a large directory takes long. */
export async function sweepTemporaries(directory: NativePath): Promise<void> {
  const now = performance.now();
  const last = sweptAt.get(directory);
  if (last !== undefined && now - last < TEMPORARY_SWEEP_INTERVAL_MS) return;
  if (sweptAt.size >= SWEEP_CACHE_DIRECTORIES) sweptAt.clear();
  sweptAt.set(directory, now);
  await removeStaleTemporaries(directory);
}

/**
 * Removes the temporary files whose creator is dead. The creator cannot be checked if it ran in another container, on another
 * machine or before a reboot. Then files without a write for a long time are removed: if the creator still lives, its replacement
 * fails and the old file stays. Parts of resumable replacements stay for days. Errors are ignored.
 */
export async function removeStaleTemporaries(directory: NativePath): Promise<void> {
  const names = await readdir(systemPath(directory), 'latin1').catch(() => []);
  for (const name of names) {
    const creator = creatorOf(name);
    if (creator === null && !isPartName(name)) continue;
    const path = systemPath(childPath(directory, name));
    try {
      const stale = creator === null ? isUnchanged(path, PART_MAX_IDLE_MS) : isStale(creator, path);
      if (await stale) await unlink(path);
    } catch {
      // Another process removed it, or this process lacks the permission.
    }
  }
}

interface Creator {
  readonly origin: string;
  readonly pid: number;
  readonly startTime: string;
}

const NAME_PATTERN = /\.exec-server-([0-9a-f]{8})-(\d+)-(\d+)-[0-9a-f]{8}\.tmp$/;
const PART_PATTERN = /\.exec-server-[0-9a-f]{32}\.part$/;
const sweptAt = new Map<NativePath, number>();

/** Cuts between characters, for file systems that accept only UTF-8 names. */
function stemOf(name: string): string {
  let end = Math.min(name.length, TEMPORARY_STEM_BYTES);
  while (end > 0 && end < name.length && isContinuation(name.charCodeAt(end))) end--;
  return name.slice(0, end);
}

function isContinuation(byte: number): boolean {
  return byte >= 0x80 && byte < 0xc0;
}

function creatorOf(name: string): Creator | null {
  const parts = name.startsWith('.') ? NAME_PATTERN.exec(name) : null;
  return parts === null ? null : { origin: parts[1]!, pid: Number(parts[2]), startTime: parts[3]! };
}

async function isStale(creator: Creator, path: string | Buffer): Promise<boolean> {
  if (creator.origin === (await thisProcess()).origin) return !(await isAlive(creator));
  return await isIdle(path, TEMPORARY_MAX_IDLE_MS);
}

/** Like {@link isIdle}. A client may set the modification time of its file before it renames the file. */
async function isUnchanged(path: string | Buffer, maxIdleMs: number): Promise<boolean> {
  const { mtimeMs, ctimeMs } = await lstat(path);
  return Date.now() - Math.max(mtimeMs, ctimeMs) > maxIdleMs;
}

async function isIdle(path: string | Buffer, maxIdleMs: number): Promise<boolean> {
  return Date.now() - (await lstat(path)).mtimeMs > maxIdleMs;
}

function isPartName(name: string): boolean {
  return name.startsWith('.') && PART_PATTERN.test(name);
}

async function isAlive(creator: Creator): Promise<boolean> {
  try {
    process.kill(creator.pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
  }
  const row = await readStat(creator.pid);
  // Processes of other users may be hidden. Then only the pid is known to exist.
  return row === null || (row.startTime === creator.startTime && !'ZX'.includes(row.state));
}

let identity: Promise<{ origin: string; startTime: string }> | null = null;

function thisProcess(): Promise<{ origin: string; startTime: string }> {
  identity ??= identifyThisProcess();
  return identity;
}

/** Without /proc the origin is random, so that no other process shares it. */
async function identifyThisProcess(): Promise<{ origin: string; startTime: string }> {
  const [boot, namespace, row] = await Promise.all([
    readFile('/proc/sys/kernel/random/boot_id', 'latin1').catch(() => null),
    readlink('/proc/self/ns/pid').catch(() => null),
    readStat(process.pid),
  ]);
  if (boot === null || namespace === null || row === null) {
    return { origin: randomBytes(4).toString('hex'), startTime: '0' };
  }
  const origin = createHash('sha256').update(`${boot.trim()} ${namespace}`).digest('hex').slice(0, 8);
  return { origin, startTime: row.startTime };
}

/** Two fields of proc_pid_stat(5), or null. The name in parentheses before them may contain anything. */
async function readStat(pid: number): Promise<{ state: string; startTime: string } | null> {
  const text = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => null);
  if (text === null) return null;
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0] ?? '', startTime: fields[START_TIME_FIELD] ?? '' };
}

/** The index of the start time, counted from the state, which is field 3. */
const START_TIME_FIELD = 19;
