import { shellKind } from '../client/process/shell-command.ts';
import {
  DEFAULT_WRITE_YIELD_MS,
  DEFAULT_YIELD_MS,
  MAX_YIELD_MS,
  MIN_POLL_MS,
  MIN_WINDOWS_YIELD_MS,
  MIN_YIELD_MS,
  WRITE_SETTLE_MS,
} from './limits.ts';

/** Returns how long `exec_command` waits for the program that it started. */
export function execWaitMs(yieldMs: number | undefined, shellName: string): number {
  const kind = shellKind(shellName);
  const least = kind === 'powershell' || kind === 'cmd' ? MIN_WINDOWS_YIELD_MS : MIN_YIELD_MS;
  return clamp(yieldMs ?? DEFAULT_YIELD_MS, least, MAX_YIELD_MS);
}

/** Returns how long `write_stdin` waits for a program after input. */
export function writeWaitMs(yieldMs: number | undefined): number {
  return WRITE_SETTLE_MS + clamp(yieldMs ?? DEFAULT_WRITE_YIELD_MS, MIN_YIELD_MS, MAX_YIELD_MS);
}

/** Returns how long `write_stdin` waits for a program without input. */
export function pollWaitMs(yieldMs: number | undefined, maxPollMs: number): number {
  return clamp(yieldMs ?? 0, MIN_POLL_MS, Math.max(MIN_POLL_MS, maxPollMs));
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), most);
}
