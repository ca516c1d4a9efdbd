import { readdirSync, readFileSync } from 'node:fs';

/** What the kernel reports about a process. /proc is served from memory, so it is read synchronously. */
export interface ProcessRow {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** In clock ticks since boot; distinguishes two processes with the same pid. */
  readonly startTime: string;
}

/** The pids of all visible processes, including zombies; empty where there is no /proc, as in some chroots. */
export function listPids(proc = '/proc'): number[] {
  const pids: number[] = [];
  for (const name of namesIn(proc)) {
    const first = name.charCodeAt(0);
    if (first >= ZERO && first <= NINE) pids.push(Number(name));
  }
  return pids;
}

/** One process; null when it is gone or a zombie. */
export function readProcess(pid: number): ProcessRow | null {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return null;
  }
  // The second field is the program's name in parentheses, which may itself contain spaces and parentheses.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, parent, group, session] = fields;
  // The first thread of a process may be a zombie while other threads run.
  const dead = state === 'X' || (state === 'Z' && Number(fields[THREADS_FIELD]) <= 1);
  if (dead) return null;
  return {
    pid,
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    startTime: fields[START_TIME_FIELD] ?? '',
  };
}

/** Sends SIGKILL to one process. Ignores one that is gone or that this process may not signal. */
export function killProcess(pid: number): void {
  trySignal(pid, 'SIGKILL');
}

/** Sends a signal to a process, or with a negative number to a group. False when it does not exist. */
export function trySignal(target: number, signal: number | NodeJS.Signals): boolean {
  try {
    return process.kill(target, signal);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** The names in a directory; none when it cannot be read, which must not stop a server that only wants to kill a program. */
export function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

const ZERO = 48;
const NINE = 57;
/** Positions counted from the state, which is field 3 of proc_pid_stat(5). */
const THREADS_FIELD = 17;
const START_TIME_FIELD = 19;
