import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Workspace } from '../unit/cli/run-cli.ts';
import { waitFor } from './wait-for.ts';

/** A user of commands, with a home and a runtime directory of its own. `close` ends the private server. */
export class CommandUser {
  readonly workspace = new Workspace();
  readonly runtime = join(this.workspace.path, 'run');
  readonly folder = join(this.runtime, 'exec-server');

  constructor() {
    mkdirSync(this.runtime, { mode: 0o700 });
  }

  get env(): Record<string, string> {
    return { XDG_RUNTIME_DIR: this.runtime };
  }

  start(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    return this.workspace.start(args, { ...this.env, ...env });
  }

  run(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    return this.workspace.run(args, { ...this.env, ...env });
  }

  /** The pid of the private server; null when none has started. */
  get serverPid(): number | null {
    return serverPidIn(this.runtime);
  }

  async close(): Promise<void> {
    await endPrivateServer(this.runtime);
    this.workspace.close();
  }

  /** Waits until the server has ended and its socket is gone. */
  async serverEnded(pid: number): Promise<void> {
    await waitFor('the end of the private server', () => !isAlive(pid));
    await waitFor('its socket to be gone', () => !existsSync(join(this.folder, 'server.sock')));
  }
}

/** Ends the private server of a runtime directory, if there is one. */
export async function endPrivateServer(runtime: string): Promise<void> {
  const pid = serverPidIn(runtime);
  if (pid === null || !isAlive(pid)) return;
  process.kill(pid, 'SIGTERM');
  await waitFor('the end of the private server', () => !isAlive(pid));
}

function serverPidIn(runtime: string): number | null {
  try {
    return JSON.parse(readFileSync(join(runtime, 'exec-server', 'server.json'), 'utf8')).pid;
  } catch {
    return null;
  }
}

/** Whether a process runs. One that has ended and was not waited for does not. */
export function isAlive(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}
