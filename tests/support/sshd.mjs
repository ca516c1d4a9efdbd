import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const SSHD = '/usr/sbin/sshd';

/** Why no sshd can be started; null when one can. */
export function sshMissing() {
  if (!existsSync(SSHD)) return `${SSHD} does not exist; install openssh-server`;
  if (spawnSync('ssh', ['-V']).error !== undefined) return 'there is no ssh; install openssh-client';
  return null;
}

/** Creates keys in a directory: `host`, and `user`, which may log in. */
export function createSshKeys(folder) {
  for (const key of ['host', 'user']) {
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(folder, key)]);
  }
}

/** Starts an sshd on a loopback port with the keys of a directory. It logs to stderr. `lines` are added to its configuration. */
export function spawnSshd(folder, port, lines) {
  const at = (name) => join(folder, name);
  const config = [
    `ListenAddress 127.0.0.1:${port}`,
    `HostKey ${at('host')}`,
    `AuthorizedKeysFile ${at('user.pub')}`,
    'PidFile none',
    'UsePAM no',
    'StrictModes no',
    'PermitRootLogin yes',
    ...lines,
  ];
  writeFileSync(at('sshd_config'), `${config.join('\n')}\n`);
  // sshd wants it, also where it separates no privileges.
  mkdirSync('/run/sshd', { recursive: true });
  return spawn(SSHD, ['-D', '-e', '-f', at('sshd_config')], { stdio: ['ignore', 'ignore', 'pipe'] });
}
