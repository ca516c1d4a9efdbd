import { fstatSync, lstatSync, readFileSync, type Stats } from 'node:fs';
import { StartError } from './start-error.ts';

/**
 * Checks a Unix socket that a service manager has bound and passed to this process. Throws StartError unless its address is `path`, and
 * only the user of this process can open it. With `requiresToken` other users may open it, because they also need a token.
 */
export function checkPassedUnixSocket(descriptor: number, path: string, requiresToken: boolean): void {
  const address = addressOfUnixSocket(descriptor);
  if (address !== path) {
    throw new StartError(
      `the service manager passed ${nameOf(address)}, but --listen names ${path}; use the same path in the socket unit and in --listen`,
    );
  }
  if (requiresToken) return;
  const weakness = weaknessOf(path);
  if (weakness === null) return;
  throw new StartError(
    `the socket ${path} that the service manager passed would serve other users: ${weakness}; ` +
      'set SocketMode=0600 and SocketUser= in the socket unit, or add --ws-auth',
  );
}

/**
 * The path that a Unix socket is bound to, with `@` in place of each NUL byte. Node does not report it for an inherited socket, so the
 * table of the kernel does: https://man7.org/linux/man-pages/man5/proc_net.5.html. Null for any other descriptor.
 */
function addressOfUnixSocket(descriptor: number): string | null {
  const { ino } = fstatSync(descriptor);
  // Num RefCount Protocol Flags Type St Inode Path. A path may contain newlines, and then looks like several sockets.
  const rows = readFileSync('/proc/net/unix', 'utf8').split('\n');
  const found = rows
    .map((row) => /^[0-9a-f]+: (?:[0-9A-F]+ ){5} *(\d+)(?: (.*))?$/.exec(row))
    .filter((row) => row?.[1] === String(ino));
  return found.length === 1 ? (found[0]![2] ?? '') : null;
}

function nameOf(address: string | null): string {
  if (address === null)
    return 'a socket that is not a Unix socket of this network namespace (/proc/net/unix)';
  if (address === '') return 'a Unix socket without an address';
  // The name of an abstract socket begins with a NUL byte. It has no permissions: unix(7).
  if (address.startsWith('@'))
    return `the abstract Unix socket ${address.replace(/@+$/, '')}, which every user can open`;
  return `the Unix socket ${address}`;
}

/** Why other users can open a socket; null if they cannot. */
function weaknessOf(path: string): string | null {
  let found: Stats;
  try {
    found = lstatSync(path);
  } catch (error) {
    return `its permissions are not known (${(error as NodeJS.ErrnoException).code})`;
  }
  if (!found.isSocket()) return 'the path is not a socket any more';
  const own = process.geteuid!();
  if (found.uid !== own) return `it belongs to user ${found.uid}, and the server runs as user ${own}`;
  const mode = found.mode & 0o777;
  // Connecting needs the right to write, and only that: unix(7).
  return (mode & 0o022) === 0 ? null : `its mode is ${mode.toString(8).padStart(4, '0')}`;
}
