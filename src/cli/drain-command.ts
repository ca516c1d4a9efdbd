import { statSync } from 'node:fs';
import { quoteValue } from '../server/config/values.ts';
import type { CommandResult, Host } from './commands.ts';
import { parseDuration } from './duration.ts';
import { RunError, UsageError } from './failures.ts';
import { type GivenFlags, parseOnlyFlags } from './flags.ts';
import { privateFolder, readServerInfo } from './private-server/private-folder.ts';
import { isRunning, pidInFile, serverProcess, startedAfter } from './service/server-process.ts';
import { DRAIN } from './specs/drain-spec.ts';

/** Asks a server to drain, and waits for its end. */
export async function drainCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const flags = parseOnlyFlags('drain', argv, DRAIN.flags);
  const timeoutMs =
    flags.timeout === undefined
      ? Number.POSITIVE_INFINITY
      : parseDuration(flags.timeout, '--timeout', 'drain');
  const pid = await findServer(flags, host.env);
  if (pid === null) return { text: '', details: 'no server is running\n', exitCode: 0 };
  const server = serverProcess(pid);
  if (!server.signal('SIGUSR2')) return ended(pid, '');
  host.stderr.write(`process ${pid} drains; waiting until its programs have ended\n`);
  if (await server.ended(timeoutMs)) return ended(pid, '');
  server.signal('SIGTERM');
  if (await server.ended(FORCED_END_MS))
    return ended(pid, `, and its programs were ended after ${flags.timeout}`);
  throw new RunError(`process ${pid} has not ended ${FORCED_END_MS / 1_000} s after SIGTERM; see its log`);
}

/** How long a server may take to end its programs: longer than the default of shutdownGracePeriodMs. */
const FORCED_END_MS = 30_000;

function ended(pid: number, how: string): CommandResult {
  return { text: '', details: `process ${pid} has ended${how}\n`, exitCode: 0 };
}

/** Returns the process id of the server that the flags name; null when it does not run. */
async function findServer(
  { service, user, pid, 'pid-file': pidFile }: GivenFlags<typeof DRAIN.flags>,
  env: NodeJS.ProcessEnv,
): Promise<number | null> {
  const given = [service && '--service', pid !== undefined && '--pid', pidFile !== undefined && '--pid-file'];
  const [first, second] = given.filter((name) => typeof name === 'string');
  if (second !== undefined) {
    throw new UsageError(`${first} and ${second} both name a server; give only one of them`, 'drain');
  }
  if (user && !service) throw new UsageError('--user needs --service', 'drain');
  if (pid !== undefined) {
    if (!/^[1-9]\d{0,9}$/.test(pid))
      throw new UsageError(`--pid: ${quoteValue(pid)} is not a process id`, 'drain');
    return Number(pid);
  }
  if (pidFile !== undefined) return pidInFile(pidFile);
  if (!service) return privateServer(env);
  const { systemctl } = await import('./service/systemctl.ts');
  return Number(systemctl(user === true, env).property('exec-server.service', 'MainPID')) || null;
}

/** The process id of this user's private server; null when there is none. A server that was killed leaves its description. */
function privateServer(env: NodeJS.ProcessEnv): number | null {
  const folder = privateFolder(env);
  const pid = readServerInfo(folder)?.pid ?? null;
  if (pid === null || !isRunning(pid)) return null;
  return startedAfter(pid, statSync(folder.info).mtimeMs) ? null : pid;
}
