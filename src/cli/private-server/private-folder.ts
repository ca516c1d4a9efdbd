import { createHash } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  type Stats,
} from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { systemReason } from '../../client/system-error.ts';
import { MAX_UNIX_PATH_BYTES } from '../../listener/limits.ts';
import { RunError } from '../failures.ts';

/** The files of a user's private server. All of them are in a directory that only the user can open. */
export interface PrivateFolder {
  readonly path: string;
  readonly socket: string;
  readonly url: string;
  /** A server holds an exclusive flock(2) on it from before it listens until it has ended. */
  readonly lock: string;
  /** Exists while a command starts a server, so that others wait instead of starting one too. */
  readonly starting: string;
  /** What the server is: {@link PrivateServerInfo} in JSON. */
  readonly info: string;
  readonly pid: string;
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

/** Where the system keeps what belongs to logins. */
export interface LoginFolders {
  /** Has a runtime directory for each user who is logged in. */
  readonly runtime: string;
  /** Exists where systemd manages logins: then it removes the runtime directory of a user with the last login. */
  readonly managed: string;
  /** Has a file for each user who lingers: the runtime directory of such a user stays. */
  readonly lingering: string;
}

const LOGIN_FOLDERS: LoginFolders = {
  runtime: '/run/user',
  managed: '/run/systemd/users',
  lingering: '/var/lib/systemd/linger',
};

/**
 * Returns the folder of the user's private server, and creates it if needed. It is in `$XDG_RUNTIME_DIR`, else in `/run/user/UID`, so
 * that commands with and without the variable find the same server. Where that directory goes with the last login, programs that go on
 * could not be found again, so the folder is in the user's state directory. It is in `/tmp`, where sandboxed programs of other servers
 * may write, only for a user without a home directory. Throws RunError when others could open it.
 */
export function privateFolder(env: Environment, logins = LOGIN_FOLDERS): PrivateFolder {
  const path = privatePath(env, logins);
  makePrivate(path);
  const at = (name: string) => join(path, name);
  const socket = socketIn(path);
  if (!isShortEnough(socket)) {
    throw new RunError(
      `the path of the private server's socket is longer than ${MAX_UNIX_PATH_BYTES} bytes: ${socket} (set XDG_RUNTIME_DIR to a shorter one)`,
    );
  }
  return {
    path,
    socket,
    url: `unix://${socket}`,
    lock: at('server.lock'),
    starting: at('starting'),
    info: at('server.json'),
    pid: at('server.pid'),
    replace: at('replace'),
    log: at('server.log'),
  };
}

function socketIn(folder: string): string {
  return join(folder, 'server.sock');
}

function isShortEnough(socket: string): boolean {
  return Buffer.byteLength(socket) <= MAX_UNIX_PATH_BYTES;
}

/** Reads what the server has written about itself; null without a server. */
export function readServerInfo({ info }: PrivateFolder): PrivateServerInfo | null {
  try {
    return JSON.parse(readOwnFile(info).text);
  } catch {
    return null;
  }
}

/** Reads a file of the folder, as {@link openOwnFile} opens it. */
export function readOwnFile(path: string): { readonly text: string; readonly modifiedAtMs: number } {
  const descriptor = openOwnFile(path, constants.O_RDONLY);
  try {
    return { text: readFileSync(descriptor, 'utf8'), modifiedAtMs: fstatSync(descriptor).mtimeMs };
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Opens a file of the folder. Throws RunError when the folder or the file is not the user's own: another program could
 * otherwise place a link there, and so choose the file that is read or changed.
 */
export function openOwnFile(path: string, flags: number): number {
  requirePrivate(dirname(path));
  const descriptor = openWithoutLinks(path, flags);
  const stats = fstatSync(descriptor);
  if (stats.isFile() && stats.uid === process.geteuid!() && stats.nlink <= 1) return descriptor;
  closeSync(descriptor);
  throw notOwnFile(path);
}

function openWithoutLinks(path: string, flags: number): number {
  try {
    // Without waiting for the other end of a pipe.
    return openSync(path, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK, 0o600);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw code === 'ELOOP' || code === 'ENXIO' || code === 'EISDIR' ? notOwnFile(path) : error;
  }
}

/** Removes a file of the folder if it is there. Throws RunError for a directory, which this program never creates there. */
export function removeOwnFile(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ERR_FS_EISDIR' ? notOwnFile(path) : error;
  }
}

function notOwnFile(path: string): RunError {
  return new RunError(
    `${path} is not a regular file of this user with one name, so the private server does not use it (find out who made it, and remove it)`,
  );
}

function privatePath(env: Environment, logins: LoginFolders): string {
  const uid = process.geteuid!();
  const loginRuntime = join(logins.runtime, `${uid}`);
  const runtime = [env.XDG_RUNTIME_DIR ?? '', loginRuntime].find(isOwnDirectory);
  const inRuntime = runtime === undefined ? null : join(runtime, 'exec-server');
  const isRemoved = runtime !== undefined && resolve(runtime) === loginRuntime && isRemovedAtLogout(logins);
  if (inRuntime !== null && !isRemoved) return inRuntime;
  const state = stateDirectories(env).find(canHoldFolder);
  if (state === undefined) return inRuntime ?? `/tmp/exec-server-${uid}`;
  const inState = join(state, 'exec-server', `run-${machine()}`);
  return inRuntime !== null && !isShortEnough(socketIn(inState)) ? inRuntime : inState;
}

function isRemovedAtLogout({ managed, lingering }: LoginFolders): boolean {
  if (!existsSync(managed)) return false;
  const name = userName();
  return name === '' || !existsSync(join(lingering, name));
}

/** Several machines and containers may share a home directory. A socket leads to a server of its own machine only. */
function machine(): string {
  return createHash('sha256').update(hostname()).digest('hex').slice(0, 8);
}

/** The state directories of the user, the preferred one first. `HOME` may be that of another user (sudo). */
function stateDirectories({ XDG_STATE_HOME: state = '', HOME: home = '' }: Environment): string[] {
  const homes = [home, systemHome()].filter(isOwnDirectory);
  return [...(isAbsolute(state) ? [state] : []), ...homes.map((path) => join(path, '.local', 'state'))];
}

function systemHome(): string {
  try {
    return userInfo().homedir;
  } catch {
    return '';
  }
}

/** Empty for a user without an entry in the system's table. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return '';
  }
}

/** Creates the directory of this program in a state directory. */
function canHoldFolder(state: string): boolean {
  const path = join(state, 'exec-server');
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    accessSync(path, constants.W_OK | constants.X_OK);
    return isOwnDirectory(path);
  } catch {
    return false;
  }
}

function makePrivate(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') {
      throw new RunError(`cannot create ${path} for the private server: ${systemReason(error)}`);
    }
  }
  requirePrivate(path);
}

/** Throws RunError unless only the user can open the folder. Takes the rights of others away. */
export function requirePrivate(path: string): void {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (!isOwn(stats)) {
    throw new RunError(
      `${path} is not a directory of this user, so the private server cannot be trusted (remove it, or set XDG_RUNTIME_DIR to a directory of yours)`,
    );
  }
  if ((stats.mode & 0o077) !== 0) chmodSync(path, 0o700);
}

function isOwnDirectory(path: string): boolean {
  return isAbsolute(path) && isOwn(lstatSync(path, { throwIfNoEntry: false }));
}

function isOwn(stats: Stats | undefined): stats is Stats {
  return stats?.isDirectory() === true && stats.uid === process.geteuid!();
}
