import { statSync } from 'node:fs';
import { isRunning, startedAfter } from '../service/server-process.ts';
import { privateFolder, readServerInfo } from './private-folder.ts';

/** The process of this user's private server, and its pid file; null when there is none. A server that was killed leaves its description. */
export function runningPrivateServer(
  env: NodeJS.ProcessEnv,
): { readonly pid: number; readonly pidFile: string } | null {
  const folder = privateFolder(env);
  const pid = readServerInfo(folder)?.pid ?? null;
  if (pid === null || !isRunning(pid)) return null;
  return startedAfter(pid, statSync(folder.info).mtimeMs) ? null : { pid, pidFile: folder.pid };
}
