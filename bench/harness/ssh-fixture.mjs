import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSshKeys, spawnSshd } from '../../tests/support/sshd.mjs';

export { sshMissing } from '../../tests/support/sshd.mjs';

const START_MS = 10_000;

/**
 * @typedef {object} SshServer
 * @property {string} destination
 * @property {string[]} options Of ssh and scp, besides the port.
 * @property {string} port
 * @property {string} control The socket of a connection that is already open (ControlMaster).
 */

/**
 * An sshd on a loopback port, with its own keys and configuration.
 * @param {string} work
 * @param {(ssh: SshServer) => Promise<Record<string, number>>} measure
 */
export async function withSsh(work, measure) {
  const folder = mkdtempSync(join(work, 'ssh-'));
  const at = (name) => join(folder, name);
  const children = [];
  const stop = () => {
    for (const child of children) if (child.exitCode === null) child.kill('SIGTERM');
  };
  process.once('exit', stop);
  try {
    createSshKeys(folder);
    const port = String(await freePort());
    const sshd = spawnSshd(folder, port, ['Subsystem sftp internal-sftp']);
    sshd.stderr.resume();
    children.push(sshd);
    const options = [
      ...['-F', 'none', '-i', at('user'), '-o', 'StrictHostKeyChecking=no', '-o', 'LogLevel=ERROR'],
      ...['-o', `UserKnownHostsFile=${at('known')}`, '-o', 'BatchMode=yes'],
    ];
    const destination = `${userInfo().username}@127.0.0.1`;
    const ssh = { destination, options, port, control: at('control') };
    await until(() => spawnSync('ssh', [...options, '-p', port, destination, 'true']).status === 0, 'sshd');
    const master = [...options, '-p', port, '-M', '-N', '-S', ssh.control, destination];
    children.push(spawn('ssh', master, { stdio: 'ignore' }));
    await until(() => existsSync(ssh.control), 'the shared connection of ssh');
    return await measure(ssh);
  } finally {
    process.off('exit', stop);
    for (const child of children.reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill('SIGTERM');
      await once(child, 'exit');
    }
    rmSync(folder, { recursive: true });
  }
}

async function until(isDone, what) {
  for (const deadline = Date.now() + START_MS; !isDone(); ) {
    if (Date.now() > deadline) throw new Error(`${what} did not start in ${START_MS / 1000} s`);
    await sleep(20);
  }
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  await once(server.close(), 'close');
  return port;
}
