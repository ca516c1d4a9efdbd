import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { isObject } from '../../base/is-object.ts';
import type { DrainStatus, UnfinishedProgram } from '../../server/draining.ts';
import { publishFile } from '../runtime-files.ts';

/*
 * A signal carries no data. So `drain` writes its time limit to a file beside the pid file before it sends SIGUSR2, and the server
 * replaces that file by what it waits for.
 */

/** What `drain` asks for. */
interface DrainRequest {
  /** Null for the time of the server's own setting. */
  readonly timeoutMs: number | null;
}

/** What a server that drains has answered. */
export interface DrainAnswer {
  readonly deadlineMs: number | null;
  /** How many programs it waits for. */
  readonly total: number;
  /** The first of them. */
  readonly programs: readonly UnfinishedProgram[];
}

/** Writes a request for the server that has written the pid file. Returns the function that removes it unless the server has answered. */
export function writeDrainRequest(pidFile: string, request: DrainRequest): () => void {
  // Readable for the account of the server, which may be another one.
  return publishFile('the request to drain', drainFile(pidFile), `${JSON.stringify(request)}\n`, 0o644);
}

/** Reads the request of a `drain` that has just sent its signal; null without one. */
export function readDrainRequest(pidFile: string): DrainRequest | null {
  const read = readSafely(drainFile(pidFile));
  const { timeoutMs } = read?.value ?? {};
  if (read === null || timeoutMs === undefined || Date.now() - read.modifiedAtMs > REQUEST_MAX_AGE_MS)
    return null;
  return { timeoutMs: typeof timeoutMs === 'number' && timeoutMs >= 0 ? timeoutMs : null };
}

/** Answers a request. Returns the function that removes the answer. */
export function writeDrainAnswer(pidFile: string, { deadlineMs, programs }: DrainStatus): () => void {
  const answer: DrainAnswer = {
    deadlineMs,
    total: programs.length,
    programs: programs.slice(0, MAX_LISTED_PROGRAMS),
  };
  return publishFile('the answer to drain', drainFile(pidFile), `${JSON.stringify(answer)}\n`, 0o600);
}

/** Reads the answer of a server; null while there is none. */
export function readDrainAnswer(pidFile: string): DrainAnswer | null {
  const value = readSafely(drainFile(pidFile))?.value;
  return Array.isArray(value?.programs) ? (value as unknown as DrainAnswer) : null;
}

/** The file that the functions above write for a pid file. */
export function drainFile(pidFile: string): string {
  return `${pidFile}.drain`;
}

/** A request that is older was never followed by its signal. */
const REQUEST_MAX_AGE_MS = 60_000;

const MAX_LISTED_PROGRAMS = 20;

interface ReadFile {
  readonly value: Readonly<Record<string, unknown>>;
  readonly modifiedAtMs: number;
}

/** Reads an object from a file of this user, of root, or for root of any user. The folder may be one that others write to. */
function readSafely(path: string): ReadFile | null {
  let descriptor: number;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return null;
  }
  try {
    const stats = fstatSync(descriptor);
    const user = process.geteuid!();
    if (!stats.isFile() || !(user === 0 || [user, 0].includes(stats.uid))) return null;
    const value: unknown = JSON.parse(readFileSync(descriptor, 'utf8'));
    return isObject(value) ? { value, modifiedAtMs: stats.mtimeMs } : null;
  } catch {
    return null;
  } finally {
    closeSync(descriptor);
  }
}
