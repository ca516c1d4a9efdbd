import type { StdioNull } from 'node:child_process';
import { closeSync, constants, openSync, rmSync, writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { systemReason } from '../../client/system-error.ts';
import { VERSION } from '../../observability/version.ts';
import { isDrainingError } from '../environments/target.ts';
import { RunError } from '../failures.ts';
import { cannotWriteFile } from '../file-failures.ts';
import { ownCommand } from '../own-command.ts';
import { inheritedDescriptors } from './inherited-descriptors.ts';
import { FIRST_PAUSE_MS, MAX_PAUSE_MS, START_CLAIM_MS, START_SPAWN_MS, START_TIMEOUT_MS } from './limits.ts';
import {
  openOwnFile,
  type PrivateFolder,
  type PrivateServerInfo,
  privateFolder,
  readOwnFile,
  readServerInfo,
  removeOwnFile,
  requirePrivate,
} from './private-folder.ts';

/** What a command got from its private server. */
interface Reached<T> {
  readonly result: T;
  readonly url: string;
  readonly info: PrivateServerInfo | null;
}

/**
 * Calls `connect` with the URL of this user's private server, and starts the server if there is none. Any number of commands may do so
 * at the same time: one server is started. A server of another version is used, and asked to end when it is idle, so that a later
 * command starts this version. When a server refuses the session because it drains, this waits until its programs have ended, and starts
 * another one. Throws what `connect` throws for a server that is there, and RunError for one that cannot be started.
 */
export async function reachPrivateServer<T>(
  env: NodeJS.ProcessEnv,
  connect: (url: string) => Promise<T>,
): Promise<Reached<T>> {
  const folder = privateFolder(env);
  let deadline = performance.now() + START_TIMEOUT_MS;
  let isDraining = false;
  let start: Start | null = null;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    requirePrivate(folder.path);
    try {
      const result = await connect(folder.url);
      return { result, url: folder.url, info: askToReplace(folder) };
    } catch (error) {
      if (isDrainingError(error as Error)) {
        if (!isDraining) process.stderr.write(`exec-server: ${WAITS_FOR_DRAIN}\n`);
        isDraining = true;
        deadline = performance.now() + START_TIMEOUT_MS;
        await delay(pauseMs);
        continue;
      }
      if (!isAbsent(error)) throw error;
      if (start?.failure != null) throw new RunError(start.failure);
      if (performance.now() > deadline) {
        throw new RunError(
          `the private server did not start in ${START_TIMEOUT_MS / 1_000} s (see ${folder.log})`,
        );
      }
    }
    // One that ended without an error has left the socket to another server.
    if (start === null || start.hasEnded) start = await startServer(folder, env);
    await delay(pauseMs);
  }
}

/** The state of a server that this command has started. */
interface Start {
  hasEnded: boolean;
  /** Why the start failed. */
  failure: string | null;
}

/** Starts a server that outlives this command. Returns null when another command does that. */
async function startServer(folder: PrivateFolder, env: NodeJS.ProcessEnv): Promise<Start | null> {
  // Loaded here: most commands find a server.
  const { spawn } = await import('node:child_process');
  const log = openLog(folder);
  let claim: number | null = null;
  let nothing: number | null = null;
  try {
    claim = claimStart(folder);
    if (claim === null) return null;
    // Not in the folder of the command, which its user may want to remove.
    const [program, ...args] = ownCommand();
    nothing = openSync('/dev/null', 'r');
    const stdio: (StdioNull | number)[] = ['ignore', 'ignore', log];
    // The server would keep the locks and the pipes of the caller.
    for (const descriptor of inheritedDescriptors()) stdio[descriptor] = nothing;
    const child = spawn(program, [...process.execArgv, ...args, '__private-server'], {
      cwd: '/',
      detached: true,
      env,
      stdio: Array.from(stdio, (item) => item ?? 'ignore'),
    });
    const start: Start = { hasEnded: false, failure: null };
    child.once('error', (error) => {
      start.failure = `cannot start the private server: ${systemReason(error)}`;
    });
    child.once('exit', (code, signal) => {
      start.hasEnded = true;
      if (code !== 0 && signal === null) start.failure = failureOf(folder);
    });
    child.unref();
    try {
      writeSync(claim, String(child.pid ?? ''));
    } catch (error) {
      // The server could not write its own files either.
      child.kill();
      rmSync(folder.starting, { force: true });
      throw cannotWriteFile(`${folder.starting} for the private server`, error);
    }
    return start;
  } finally {
    closeSync(log);
    if (claim !== null) closeSync(claim);
    if (nothing !== null) closeSync(nothing);
  }
}

function openLog({ log }: PrivateFolder): number {
  try {
    return openOwnFile(log, constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND);
  } catch (error) {
    throw error instanceof RunError ? error : cannotWriteFile(`${log} for the private server`, error);
  }
}

/** Creates the file that keeps other commands from starting a server too. It only saves work: the server's lock decides. */
function claimStart({ starting }: PrivateFolder): number | null {
  if (!isBeingStarted(starting)) removeOwnFile(starting);
  try {
    return openSync(starting, 'wx', 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return null;
    throw new RunError(
      `cannot start the private server, because ${starting} cannot be written: ${systemReason(error)}`,
    );
  }
}

/** Whether the process that the file names still starts. A command that was killed leaves the file behind. */
function isBeingStarted(starting: string): boolean {
  try {
    const { text, modifiedAtMs } = readOwnFile(starting);
    const ageMs = Date.now() - modifiedAtMs;
    // The clock was set back, so the age is unknown.
    if (ageMs < -CLOCK_STEP_MS) return false;
    const pid = Number(text);
    if (pid === 0) return ageMs < START_SPAWN_MS;
    process.kill(pid, 0);
    return ageMs < START_CLAIM_MS;
  } catch {
    return false;
  }
}

/** The time of a file may be that much later than the clock, which is coarser. */
const CLOCK_STEP_MS = 1_000;

/** The error that the server wrote before it ended. */
function failureOf({ log }: PrivateFolder): string {
  const { text } = readOwnFile(log);
  const [, reason] = /^exec-server: (.*)$/m.exec(text) ?? [];
  const place = text === '' ? `${log} has no reason; if the disk is full, free some space` : `see ${log}`;
  return `the private server ended while it started: ${reason ?? place}`;
}

/** No server listens, or the one that does is ending. */
function isAbsent(error: unknown): boolean {
  const { kind, data, cause } = error as {
    kind?: unknown;
    data?: { status?: unknown };
    cause?: { code?: unknown };
  };
  // Before there is a session, only a server that ends cuts the connection.
  if (data?.status === 503 || kind === 'disconnected') return true;
  const code = cause?.code ?? (error as NodeJS.ErrnoException).code;
  return ['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE'].includes(String(code));
}

const WAITS_FOR_DRAIN =
  'the private server is draining; waiting until its programs have ended, to start another one (Ctrl-C gives up)';

function askToReplace(folder: PrivateFolder): PrivateServerInfo | null {
  const info = readServerInfo(folder);
  if (info !== null && info.version !== VERSION) createFile(folder.replace);
  return info;
}

/** Never opens what is there: a file that exists asks already. */
function createFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}
