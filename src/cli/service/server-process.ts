import { readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { basename, isAbsolute } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { systemReason } from '../../client/system-error.ts';
import { quoteValue } from '../../server/config/values.ts';
import { RunError } from '../failures.ts';

/** A running server, as another process sees it. */
export interface ServerProcess {
  readonly pid: number;
  /** Sends a signal. Returns false when the process has ended. Throws RunError without the permission. */
  signal(name: 'SIGUSR2' | 'SIGTERM'): boolean;
  /** Waits until the process has ended. Returns false after `timeoutMs`. */
  ended(timeoutMs: number): Promise<boolean>;
}

/**
 * Finds a server by its process id. Throws RunError when there is no such process, or when it does not handle SIGUSR2: the signal would
 * kill it.
 */
export function serverProcess(pid: number): ServerProcess {
  const identity = identityOf(pid);
  if (identity === null)
    throw new RunError(`there is no process ${pid}; the server has ended, or the number is wrong`);
  if (!handlesDrainSignal(pid)) {
    throw new RunError(
      `process ${pid} is no exec-server that can drain (it does not handle SIGUSR2); find the process id of the server`,
    );
  }
  // Another process may get the id of one that has ended.
  const isSame = () => identityOf(pid) === identity;
  return {
    pid,
    signal: (name) => isSame() && sendSignal(pid, name),
    ended: async (timeoutMs) => {
      const deadline = performance.now() + timeoutMs;
      while (isSame()) {
        if (performance.now() >= deadline) return false;
        await delay(CHECK_MS);
      }
      return true;
    },
  };
}

/** Reads the process id in a file of `--pid-file`. Null without the file. Throws RunError when the server that wrote it has ended. */
export function pidInFile(path: string): number | null {
  const read = readPidFile(path);
  if (read === null) return null;
  const { text, writtenAtMs } = read;
  const pid = /^[1-9]\d{0,9}\s*$/.test(text) ? Number(text) : null;
  if (pid === null)
    throw new RunError(`--pid-file ${path} has no process id; name the file of 'serve --pid-file'`);
  if (startedAfter(pid, writtenAtMs)) {
    throw new RunError(
      `--pid-file ${path} is stale: process ${pid} is another one, started later; remove the file`,
    );
  }
  return pid;
}

/** Refuses a process whose command line is not that of an exec-server: another program may handle SIGUSR2 in its own way. */
export function expectServer(pid: number): void {
  const argv = commandLineOf(pid);
  const words = argv?.filter((word) => !word.startsWith('-')).slice(0, PROGRAM_WORDS) ?? [];
  if (argv === null || words.some((word) => isServerProgram(word))) return;
  throw new RunError(
    `process ${pid} is not recognized as an exec-server: its program is ${quoteValue(argv[0]!)}; find the process id of the server, or use --pid-file`,
  );
}

/** Whether there is a process with this id. */
export function isRunning(pid: number): boolean {
  return identityOf(pid) !== null;
}

/** Whether a process was started after a file with its id was written: then it is another one, which got the id since. */
export function startedAfter(pid: number, writtenAtMs: number): boolean {
  const startedAtMs = earliestStartOf(pid);
  return startedAtMs !== null && startedAtMs > writtenAtMs + CLOCK_TOLERANCE_MS;
}

const CHECK_MS = 100;

/** The program is the first word, or the script of an interpreter, after its options. One of them may have a value. */
const PROGRAM_WORDS = 3;

/** Names of the package's program and of the single executables. */
function isServerProgram(word: string): boolean {
  return [word, linkTarget(word)].some((path) => /^exec-server(?:[.-]|$)/.test(basename(path)));
}

/** What an absolute path leads to. Others depend on the directory of the process. */
function linkTarget(path: string): string {
  try {
    return isAbsolute(path) ? realpathSync(path) : path;
  } catch {
    return path;
  }
}

/** The words of the command line; null when this user may not read them, or without /proc. */
function commandLineOf(pid: number): readonly string[] | null {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return words[0] === '' ? null : words;
  } catch {
    return null;
  }
}

/** The clock may have been adjusted. */
const CLOCK_TOLERANCE_MS = 2_000;

/** /proc counts in units of 10 ms on all architectures of Linux that Node supports. */
const TICK_MS = 10;

const SIGUSR2_BIT = 1n << 11n;

function readPidFile(path: string): { readonly text: string; readonly writtenAtMs: number } | null {
  try {
    return { text: readFileSync(path, 'utf8'), writtenAtMs: statSync(path).mtimeMs };
  } catch (error) {
    // A server that has ended has removed its file.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw new RunError(`cannot read --pid-file ${path}: ${systemReason(error)}; correct the path`);
  }
}

/** Equal for the same process; null when it has ended. Without /proc, only whether a process has the id. */
function identityOf(pid: number): string | null {
  const fields = statFields(pid);
  if (fields !== null) return fields[STATE] === 'Z' ? null : fields[START_TICKS]!;
  if (process.platform === 'linux') return null;
  try {
    process.kill(pid, 0);
    return '';
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM' ? '' : null;
  }
}

/**
 * The earliest time at which a process can have started, in Unix time; null when that is not known. /proc/uptime does not help: in a
 * container it may count from the start of the container (lxcfs), and start times count from that of the machine. So this compares with
 * a thread that this process has started after `timeOrigin`. The first thread does not count: it is as old as the program before exec.
 */
function earliestStartOf(pid: number): number | null {
  const fields = statFields(pid);
  if (fields === null) return null;
  const threads = readdirSync('/proc/self/task').filter((id) => id !== String(process.pid));
  const ticks = threads.map((id) =>
    Number(statFields(`self/task/${id}`)?.[START_TICKS] ?? Number.POSITIVE_INFINITY),
  );
  return performance.timeOrigin + (Number(fields[START_TICKS]) - Math.min(...ticks)) * TICK_MS;
}

/** The fields of /proc/ID/stat after the name, which may contain spaces; null without them. */
function statFields(id: number | string): readonly string[] | null {
  try {
    const text = readFileSync(`/proc/${id}/stat`, 'latin1');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return null;
  }
}

/** Fields 3 and 22 of proc(5), counted after the name. */
const STATE = 0;
const START_TICKS = 19;

function handlesDrainSignal(pid: number): boolean {
  if (process.platform !== 'linux') return true;
  try {
    const [, mask = '0'] =
      /^SigCgt:\s*([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? [];
    return (BigInt(`0x${mask}`) & SIGUSR2_BIT) !== 0n;
  } catch {
    return false;
  }
}

function sendSignal(pid: number, name: string): boolean {
  try {
    return process.kill(pid, name);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ESRCH') return false;
    throw new RunError(
      code === 'EPERM'
        ? `process ${pid} belongs to another user; run this as that user or as root`
        : `cannot signal process ${pid}: ${message}`,
    );
  }
}
