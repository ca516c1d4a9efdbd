import type { EventEmitter } from 'node:events';
import { closeSync, openSync, readFileSync, stat, writeSync } from 'node:fs';
import { isatty } from 'node:tty';

/** The same signal again within this time is a copy of the first: timeout(1) sends two, and no person is as fast. */
const DUPLICATE_SIGNAL_MS = 100;

/** The same under npm, which forwards a signal when it comes to it. */
const NPM_DUPLICATE_SIGNAL_MS = 500;

/** Reported instead of SIGHUP when the terminal of the program was closed. */
const TERMINAL_CLOSED = 'the terminal was closed';

/**
 * Reports signals that end a program or make it reload its files, which is all that SIGHUP does. A program that was started on a
 * terminal also gets SIGHUP when the terminal is closed. That ends it, so it is reported as TERMINAL_CLOSED. Under npx one Ctrl-C, or one SIGTERM to all programs of a systemd
 * unit, arrives twice: from its sender and from npm. The copy is dropped, because a second signal ends the program immediately.
 */
export function listenForSignals(
  source: Pick<EventEmitter, 'on'>,
  listener: (signal: string) => void,
  {
    now = () => performance.now(),
    isTerminal = isatty,
    isUnderNpm = process.env.npm_command !== undefined,
  }: Readonly<Partial<SignalSources>> = {},
): void {
  const duplicateMs = isUnderNpm ? NPM_DUPLICATE_SIGNAL_MS : DUPLICATE_SIGNAL_MS;
  const terminals = [0, 1, 2].filter(isTerminal);
  const isClosed = () => terminals.length > 0 && !terminals.some(isTerminal);
  source.on('SIGHUP', () => listener(isClosed() ? TERMINAL_CLOSED : 'SIGHUP'));
  for (const signal of ['SIGTERM', 'SIGINT']) {
    let receivedAt = Number.NEGATIVE_INFINITY;
    source.on(signal, () => {
      if (now() - receivedAt < duplicateMs) return;
      receivedAt = now();
      listener(signal);
    });
  }
}

/** The clock, whether a descriptor is an open terminal, and whether npm has started this program. Tests pass their own. */
interface SignalSources {
  now(): number;
  isTerminal(descriptor: number): boolean;
  readonly isUnderNpm: boolean;
}

/** Threads for file operations. Each call on a dead mount holds one until the mount answers; one connection can hold 44. */
const THREADS = 48;

/**
 * Asks for more threads for file operations than libuv's four, unless the user has set a number. libuv reads the variable when the
 * pool is first used, in {@link startThreadPool}. Creating the threads takes milliseconds, so it waits until the URL is printed.
 */
export function planThreadPool(env: NodeJS.ProcessEnv): void {
  env.UV_THREADPOOL_SIZE ??= String(THREADS);
}

/** Creates the threads. Removes the variable again unless the user set it, so that started programs do not inherit it. */
export function startThreadPool(env: NodeJS.ProcessEnv): void {
  stat('/', () => {});
  if (env.UV_THREADPOOL_SIZE === String(THREADS)) delete env.UV_THREADPOOL_SIZE;
}

/**
 * Overwrites the memory behind /proc/PID/environ, so that no other program can read this one's secrets there. `process.env` keeps its
 * values: each variable is first copied to memory of its own. Without /proc there is nothing to overwrite. It must run before the
 * process becomes undumpable (PR_SET_DUMPABLE), because then it can no longer open its own memory.
 */
export function hideOwnEnvironment(): void {
  if (process.platform !== 'linux') return;
  for (const [name, value] of Object.entries(process.env)) process.env[name] = value;
  try {
    const { start, end } = environmentBlock();
    const memory = openSync('/proc/self/mem', 'r+');
    try {
      writeSync(memory, Buffer.alloc(end - start), 0, end - start, start);
    } finally {
      closeSync(memory);
    }
  } catch {
    // Without /proc no program can read the block either. Where only writing is forbidden, the memory is protected anyway.
  }
}

/** The address range of the initial environment: fields 50 and 51 of /proc/self/stat, counted after the name, which may contain spaces. */
function environmentBlock(): { readonly start: number; readonly end: number } {
  const fields = readFileSync('/proc/self/stat', 'latin1');
  const behindName = fields.slice(fields.lastIndexOf(')') + 2).split(' ');
  return { start: Number(behindName[ENV_START]), end: Number(behindName[ENV_START + 1]) };
}

/** Field 50, where the first field after the name is field 3. */
const ENV_START = 47;
