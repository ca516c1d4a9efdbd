import { once } from 'node:events';
import { closeSync, constants, existsSync, ftruncateSync, realpathSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { VERSION } from '../../observability/version.ts';
import type { ExecServerConfig } from '../../server/config/config.ts';
import type { RunningServer } from '../../server/serve.ts';
import type { CommandResult, Host } from '../commands.ts';
import { userConfigFile } from '../config-file.ts';
import { RunError } from '../failures.ts';
import { loadFileLock } from '../file-lock.ts';
import { publishFile } from '../runtime-files.ts';
import { serveArguments } from '../serve-command.ts';
import { parseServerArguments } from '../server-arguments.ts';
import { drainFile } from '../service/drain-file.ts';
import { DEFAULT_IDLE_TIMEOUT, LOCK_RETRY_MS, LOCK_TIMEOUT_MS, REPLACE_CHECK_MS } from './limits.ts';
import { openOwnFile, type PrivateFolder, privateFolder, removeOwnFile } from './private-folder.ts';

/**
 * Serves this user's private server until it is idle. Ends immediately when another one serves. Its settings come from private.toml in
 * the user's config folder and from no other source, except that EXEC_SERVER_IDLE_TIMEOUT_MS sets how long it stays.
 */
export async function privateServerCommand(_argv: readonly string[], host: Host): Promise<CommandResult> {
  const folder = privateFolder(host.env);
  if (!(await becomeTheOnlyOne(folder))) return { text: '', exitCode: 0 };
  // Only this process may serve now, so whatever an earlier one left is stale.
  for (const stale of [folder.socket, folder.replace, drainFile(folder.pid)]) removeOwnFile(stale);
  clear(folder.log);
  const idleTimeout = host.env.EXEC_SERVER_IDLE_TIMEOUT_MS ?? DEFAULT_IDLE_TIMEOUT;
  for (const name of Object.keys(host.env)) if (name.startsWith('EXEC_SERVER_')) delete host.env[name];
  const flags = flagsFor(folder, host.env);
  const args = parseServerArguments(
    [...flags, '--idle-timeout', idleTimeout, '--pid-file', folder.pid],
    'serve',
  );
  // Programs in sandboxes could replace its files, or give the server orders.
  const hiddenDirectory = realpathSync(folder.path);
  return serveArguments(args, host, { hiddenDirectory }, async (serving) => {
    const server = await serving;
    try {
      const text = `${JSON.stringify({ pid: process.pid, version: VERSION })}\n`;
      host.onExit(publishFile('the description of the private server', folder.info, text));
    } catch (error) {
      await server.close('failed');
      throw error;
    } finally {
      rmSync(folder.starting, { force: true });
    }
    endWhenReplaced(server, folder);
    return server;
  });
}

function clear(log: string): void {
  const descriptor = openOwnFile(log, constants.O_WRONLY | constants.O_CREAT);
  ftruncateSync(descriptor);
  closeSync(descriptor);
}

function flagsFor({ url }: PrivateFolder, env: NodeJS.ProcessEnv): string[] {
  const settings = userConfigFile(env, 'private.toml');
  const config = settings !== null && existsSync(settings) ? settings : '/dev/null';
  return ['--listen', url, '--log-level', 'error', '--ws-auth', 'none', '--config', config];
}

/** The settings that a private server has when it starts now. Throws for settings that are wrong. */
export async function privateServerConfig(env: NodeJS.ProcessEnv): Promise<ExecServerConfig> {
  const args = parseServerArguments(flagsFor(privateFolder(env), env), 'serve');
  const { loadSettings } = await import('../settings.ts');
  return (await loadSettings(args, {})).config;
}

/**
 * Takes the lock, which the system releases when this process ends, however it does. Returns false when another server listens. Waits
 * while another one starts or ends. Where there is no flock, the check of the listener must do.
 */
async function becomeTheOnlyOne(folder: PrivateFolder): Promise<boolean> {
  const lock = await loadFileLock();
  // The descriptor stays open until the process ends.
  const descriptor = openOwnFile(folder.lock, constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND);
  const deadline = performance.now() + LOCK_TIMEOUT_MS;
  while (lock !== null && !lock(descriptor)) {
    if (await isServed(folder.socket)) {
      closeSync(descriptor);
      return false;
    }
    if (performance.now() > deadline) {
      throw new RunError(`another private server neither serves nor ends (see ${folder.info} for its pid)`);
    }
    await delay(LOCK_RETRY_MS);
  }
  return lock !== null || !(await isServed(folder.socket));
}

async function isServed(path: string): Promise<boolean> {
  const socket = connect(path);
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** A command of another version asks with a file. A signal could reach another process that has got the pid since. */
function endWhenReplaced(server: RunningServer, { replace }: PrivateFolder): void {
  const timer = setInterval(() => {
    if (server.isIdle() && existsSync(replace)) void server.close('another version replaces this server');
  }, REPLACE_CHECK_MS);
  timer.unref();
  void server.closed.finally(() => clearInterval(timer));
}
