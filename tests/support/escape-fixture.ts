import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { StartParams } from '../../src/client/index.ts';
import type { SandboxRequest } from '../../src/protocol/sandbox.ts';
import { TestClient } from '../../src/testing/index.ts';

/** The user of a server: that of the test, or one without privileges. */
type ServerUser = 'root' | 'nobody';

/** Both if the test can switch users. Otherwise a run warns that it only tests its own user. */
export const SERVER_USERS: readonly ServerUser[] = usersHere();

/** Content that sandboxed programs cannot read. No output of a sandboxed program may contain it. */
export const SECRET = 'a-secret-of-the-host';
/** The content of an unchanged file of the host. */
export const UNTOUCHED = 'untouched\n';

type Access = 'read' | 'write' | 'deny';
type Profile = Extract<SandboxRequest, { permissions: unknown }>;
type Entry = Extract<
  Extract<Profile['permissions'], { type: 'managed' }>['file_system'],
  { type: 'restricted' }
>['entries'][number];

export const ROOT_READ: Entry = { path: { type: 'special', value: { kind: 'root' } }, access: 'read' };

export function at(path: string, access: Access): Entry {
  return { path: { type: 'path', path: uri(path) }, access };
}

export function denyGlob(pattern: string): Entry {
  return { path: { type: 'glob_pattern', pattern }, access: 'deny' };
}

export function managed(entries: readonly Entry[], more: Partial<Profile> & ProfileOptions = {}): Profile {
  const { network = 'restricted', maxDepth, ...rest } = more;
  const depth = maxDepth === undefined ? {} : { glob_scan_max_depth: maxDepth };
  return {
    permissions: {
      type: 'managed',
      file_system: { type: 'restricted', entries: [...entries], ...depth },
      network,
    },
    windowsSandboxLevel: 'disabled',
    ...rest,
  };
}

interface ProfileOptions {
  readonly network?: 'restricted' | 'enabled';
  readonly maxDepth?: number;
}

/** A path with any characters as a URI. */
export function uri(path: string): string {
  return `file://${path.split('/').map(encodeURIComponent).join('/')}`;
}

/** A workspace and directories around it that must stay unchanged, owned by the server's user. */
export class EscapeFixture {
  readonly user: ServerUser;
  readonly path = realpathSync(mkdtempSync(join(tmpdir(), 'escape-')));
  readonly workspace = join(this.path, 'workspace');
  readonly outside = join(this.path, 'outside');
  readonly #servers: EscapeServer[] = [];

  constructor(user: ServerUser) {
    this.user = user;
    chmodSync(this.path, 0o755);
    for (const directory of [this.path, this.workspace, this.outside]) {
      mkdirSync(directory, { recursive: true });
      this.#give(directory);
    }
  }

  /** Makes a file, with its directories, that belongs to the server's user. */
  file(path: string, content = UNTOUCHED, mode = 0o644): string {
    const full = join(this.path, path);
    this.directory(dirname(path));
    writeFileSync(full, content);
    chmodSync(full, mode);
    this.#give(full);
    return full;
  }

  directory(path: string): string {
    const full = join(this.path, path);
    if (full === this.path) return full;
    this.directory(dirname(path));
    mkdirSync(full, { recursive: true });
    this.#give(full);
    return full;
  }

  read(path: string): string {
    return readFileSync(join(this.path, path), 'utf8');
  }

  names(path: string): string[] {
    return readdirSync(join(this.path, path)).sort();
  }

  /** Everything is readable, and the workspace writable. */
  profile(...more: Entry[]): Profile {
    return managed([ROOT_READ, at(this.workspace, 'write'), ...more]);
  }

  /** `mounts` is a shell script that runs before the server, as root in the server's own mount namespace. */
  async serve(flags: readonly string[] = [], env: Readonly<Record<string, string>> = {}, mounts = '') {
    const server = await EscapeServer.start(this.user, flags, env, mounts);
    this.#servers.push(server);
    return server;
  }

  async end(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()));
    rmSync(this.path, { recursive: true });
  }

  #give(path: string): void {
    if (this.user === 'nobody') lchownSync(path, NOBODY, NOBODY);
  }
}

/** The outcome of a program. */
interface Ran {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly tty?: boolean;
  /** The network parameters of the start. */
  readonly network?: Pick<StartParams, 'networkProxy' | 'enforceManagedNetwork'>;
}

/** The built server as a separate process, with a client. */
export class EscapeServer {
  readonly process: ChildProcess;
  readonly url: string;
  readonly client: TestClient;
  #started = 0;

  private constructor(process: ChildProcess, url: string, client: TestClient) {
    this.process = process;
    this.url = url;
    this.client = client;
    client.timeoutMs = 50_000;
  }

  static async start(
    user: ServerUser,
    flags: readonly string[],
    env: Readonly<Record<string, string>>,
    mounts: string,
  ): Promise<EscapeServer> {
    const bin = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
    const isMounting = mounts !== '';
    const [program = '', ...args] = [...(isMounting ? mountsFirst(mounts, user) : []), process.execPath, bin];
    const child = spawn(program, [...args, ...flags], {
      stdio: ['ignore', 'pipe', 'inherit'],
      cwd: '/',
      env: { PATH: '/usr/bin:/bin', HOME: '/', SERVER_SECRET: SECRET, ...env },
      ...(user === 'nobody' && !isMounting && { uid: NOBODY, gid: NOBODY }),
    });
    const line = once(createInterface({ input: child.stdout! }), 'line') as Promise<[string]>;
    const ended = once(child, 'exit').then(() => Promise.reject(new Error('the server did not start')));
    const [url] = await Promise.race([line, ended]);
    const client = await TestClient.connect(url);
    await client.handshake();
    return new EscapeServer(child, url, client);
  }

  /** Runs a program until it exits. */
  async run(argv: readonly string[], sandbox: SandboxRequest | null, options: RunOptions = {}): Promise<Ran> {
    return await this.ended(await this.start(argv, sandbox, options));
  }

  /** Starts a program that has an open stdin; resolves to its id. */
  async start(
    argv: readonly string[],
    sandbox: SandboxRequest | null,
    { cwd = '/', env = {}, tty = false, network = {} }: RunOptions = {},
  ): Promise<string> {
    const processId = `p${++this.#started}`;
    await this.client.call('process/start', {
      processId,
      argv: [...argv],
      cwd: uri(cwd),
      env: { PATH: '/usr/bin:/bin', ...env },
      tty,
      pipeStdin: true,
      sandbox,
      ...network,
    });
    return processId;
  }

  async ended(processId: string): Promise<Ran> {
    const events = await this.client.closedProcess(processId);
    const stdout = events.text('stdout') + events.text('pty');
    return { exitCode: events.exitCode!, stdout, stderr: events.text('stderr') };
  }

  /** Resolves when the program has written something that contains the text. */
  async said(processId: string, text: string): Promise<void> {
    await this.client.waitFor(() => {
      const events = this.client.process(processId);
      return (events.text('stdout') + events.text('pty')).includes(text);
    });
  }

  async terminate(processId: string): Promise<void> {
    await this.client.call('process/terminate', { processId });
    await this.client.closedProcess(processId);
  }

  /** The result of a request, or its error as text. */
  async outcome(method: string, params: unknown): Promise<unknown> {
    return await this.client.request(method, params).catch((error: Error) => `refused: ${error.message}`);
  }

  async close(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const exited = once(this.process, 'exit');
    this.process.kill('SIGTERM');
    await exited;
  }
}

export const NOBODY = 65_534;

function mountsFirst(script: string, user: ServerUser): string[] {
  const become = user === 'nobody' ? `setpriv --reuid ${NOBODY} --regid ${NOBODY} --clear-groups ` : '';
  const all = `set -e\n${script}\nexec ${become}"$@"`;
  return ['/usr/bin/unshare', '--mount', '--propagation', 'private', '/bin/sh', '-c', all, 'sh'];
}

function usersHere(): readonly ServerUser[] {
  if (process.getuid?.() === 0) return ['root', 'nobody'];
  console.warn('sandbox escapes are tried as this user only: run the tests as root to try both');
  return ['root'];
}
