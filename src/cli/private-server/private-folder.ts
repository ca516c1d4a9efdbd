import { chmodSync, lstatSync, mkdirSync, readFileSync, type Stats } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { MAX_UNIX_PATH_BYTES } from '../../listener/limits.ts';
import { RunError } from '../failures.ts';

/** The files of a user's private server. All of them are in a directory that only the user can open. */
export interface PrivateFolder {
  readonly socket: string;
  readonly url: string;
  /** A server holds an exclusive flock(2) on it from before it listens until it has ended. */
  readonly lock: string;
  /** Exists while a command starts a server, so that others wait instead of starting one too. */
  readonly starting: string;
  /** What the server is: {@link PrivateServerInfo} in JSON. */
  readonly info: string;
  /** Exists when a command of another version wants the server to end as soon as it is idle. */
  readonly replace: string;
  readonly log: string;
}

/** A running private server. */
export interface PrivateServerInfo {
  readonly pid: number;
  readonly version: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Returns the folder of the user's private server, and creates it if needed. It is in `$XDG_RUNTIME_DIR`, else in `/run/user/UID`, so
 * that commands with and without the variable find the same server, else in `/tmp`. Throws RunError when others could open it.
 */
export function privateFolder(env: Environment): PrivateFolder {
  const path = privatePath(env);
  makePrivate(path);
  const at = (name: string) => join(path, name);
  const socket = at('server.sock');
  if (Buffer.byteLength(socket) > MAX_UNIX_PATH_BYTES) {
    throw new RunError(
      `the path of the private server's socket is longer than ${MAX_UNIX_PATH_BYTES} bytes: ${socket} (set XDG_RUNTIME_DIR to a shorter one)`,
    );
  }
  return {
    socket,
    url: `unix://${socket}`,
    lock: at('server.lock'),
    starting: at('starting'),
    info: at('server.json'),
    replace: at('replace'),
    log: at('server.log'),
  };
}

/** Reads what the server has written about itself; null without a server. */
export function readServerInfo({ info }: PrivateFolder): PrivateServerInfo | null {
  try {
    return JSON.parse(readFileSync(info, 'utf8'));
  } catch {
    return null;
  }
}

function privatePath({ XDG_RUNTIME_DIR: runtime }: Environment): string {
  const uid = process.geteuid!();
  const candidates = [runtime ?? '', `/run/user/${uid}`];
  const found = candidates.find(
    (path) => isAbsolute(path) && isOwn(lstatSync(path, { throwIfNoEntry: false })),
  );
  return found === undefined ? `/tmp/exec-server-${uid}` : join(found, 'exec-server');
}

function makePrivate(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') {
      throw new RunError(`cannot create ${path} for the private server: ${(error as Error).message}`);
    }
  }
  const stats = lstatSync(path);
  if (!isOwn(stats)) {
    throw new RunError(
      `${path} is not a directory of this user, so the private server cannot be trusted (remove it, or set XDG_RUNTIME_DIR to a directory of yours)`,
    );
  }
  if ((stats.mode & 0o077) !== 0) chmodSync(path, 0o700);
}

function isOwn(stats: Stats | undefined): boolean {
  return stats?.isDirectory() === true && stats.uid === process.geteuid!();
}
