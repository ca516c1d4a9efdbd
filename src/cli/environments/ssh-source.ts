import type { TransportSource } from '../../client/connection/session-options.ts';
import { stdioCommand } from '../../client/stdio.ts';
import { UsageError } from '../failures.ts';

/** A machine that is reached with ssh. */
interface SshAddress {
  /** `HOST` or `USER@HOST`. */
  readonly destination: string;
  readonly port: string | null;
}

/** Parses `ssh://[USER@]HOST[:PORT]`. Throws UsageError. */
export function parseSshUrl(text: string): SshAddress {
  const url = URL.canParse(text) ? new URL(text) : null;
  const { hostname = '', username = '', port = '' } = url ?? {};
  // A name that begins with - would be an option of ssh.
  const isPlain = url?.password === '' && /^\/?$/.test(url.pathname) && url.search === '' && url.hash === '';
  if (!isPlain || !/^[\w[]/.test(hostname) || !/^(?:\w[\w.-]*)?$/.test(username)) {
    throw new UsageError('an ssh URL is ssh://HOST, ssh://USER@HOST or ssh://USER@HOST:PORT');
  }
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  return { destination: username === '' ? host : `${username}@${host}`, port: port === '' ? null : port };
}

/**
 * Connects to the private server of another machine: runs `ssh HOST exec-server proxy`. The server does not end with ssh, so a lost
 * session can be resumed.
 */
export function sshSource({ destination, port }: SshAddress): TransportSource {
  const flags = ['-T', ...ALIVE, ...(port === null ? [] : ['-p', port])];
  const args = [...flags, '--', destination, 'exec-server', 'proxy'];
  return { ...stdioCommand({ program: 'ssh', args }), resumable: true };
}

/** Lets ssh end when the other machine has sent nothing for 15 s. By default it would wait for the system, a quarter of an hour. */
const ALIVE = ['-o', 'ServerAliveInterval=5', '-o', 'ServerAliveCountMax=3'];
