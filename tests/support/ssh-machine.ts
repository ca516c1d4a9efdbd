import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { CLI } from '../unit/cli/run-cli.ts';
import { onFreePort } from './free-port.ts';
import { CommandUser } from './private-server.ts';
import { createSshKeys, spawnSshd } from './sshd.mjs';
import { waitFor } from './wait-for.ts';

/** A machine behind ssh, which is this machine with another home, and an ssh that logs in there. */
export class SshMachine {
  /** The user at the other end of ssh. */
  readonly user: CommandUser;
  readonly url: string;
  /** For commands of the user at this end: finds the ssh that has the key. */
  readonly env: Readonly<Record<string, string>>;
  readonly #sshd: ChildProcess;

  private constructor(
    user: CommandUser,
    url: string,
    env: Readonly<Record<string, string>>,
    sshd: ChildProcess,
  ) {
    this.user = user;
    this.url = url;
    this.env = env;
    this.#sshd = sshd;
  }

  /** Starts sshd on a free loopback port. Its keys are in the home of `here`, the user at this end. */
  static async start(here: CommandUser): Promise<SshMachine> {
    const folder = here.workspace.path;
    const user = new CommandUser();
    createSshKeys(folder);
    const bin = join(user.workspace.path, 'bin');
    mkdirSync(bin);
    symlinkSync(CLI, join(bin, 'exec-server'));
    const variables = `PATH=${bin}:${process.env.PATH} HOME=${user.workspace.path} XDG_RUNTIME_DIR=${user.runtime}`;
    // ssh reads the configuration of the user in the password file, not of $HOME.
    writeFileSync(
      join(folder, 'ssh'),
      `#!/bin/sh
exec /usr/bin/ssh -o IdentityFile=${join(folder, 'user')} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "$@"
`,
    );
    chmodSync(join(folder, 'ssh'), 0o755);
    let port = 0;
    const sshd = await onFreePort(async (free) => {
      port = free;
      const child = spawnSshd(folder, port, [`SetEnv ${variables}`]);
      let log = '';
      child.stderr.on('data', (text) => {
        log += text;
      });
      await waitFor('sshd', () => log.includes('Server listening') || child.exitCode !== null);
      if (child.exitCode !== null) throw new Error(log);
      return child;
    });
    const url = `ssh://${userInfo().username}@127.0.0.1:${port}`;
    return new SshMachine(user, url, { PATH: `${folder}:${process.env.PATH}` }, sshd);
  }

  /** Ends the server that accepts connections. Those that are open stay. */
  async stopListening(): Promise<void> {
    if (this.#sshd.exitCode !== null || this.#sshd.signalCode !== null) return;
    const exited = once(this.#sshd, 'exit');
    this.#sshd.kill();
    await exited;
  }

  async close(): Promise<void> {
    await this.stopListening();
    await this.user.close();
  }
}
