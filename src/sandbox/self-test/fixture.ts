import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type ListenOptions, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Child, Spawner } from '../../process/spawn/spawner.ts';
import { policyOf } from '../policy/normalize.ts';
import type { SandboxPolicy } from '../policy/policy.ts';

/** The files, sockets and processes that a sandboxed program tries to access. */
export interface Targets {
  /** The directory that the program may write, except for protected and denied paths. */
  readonly workspace: string;
  /** A directory that the program may only read. */
  readonly outside: string;
  /** The content of every file that must not be read or changed. */
  readonly secret: string;
  /** A process of the host whose environment holds the secret. */
  readonly bystander: number;
  readonly port: number;
  readonly socket: string;
  readonly abstractSocket: string;
}

/** Creates files, sockets and a process for the self-test. `close` removes everything. */
export class SelfTestFixture {
  readonly targets: Targets;
  readonly #folder: string;
  readonly #servers: readonly Server[];
  readonly #bystander: Child;

  static async open(spawner: Spawner): Promise<SelfTestFixture> {
    const folder = await realpath(await mkdtemp(join(tmpdir(), 'exec-server-doctor-')));
    try {
      return await SelfTestFixture.#fill(folder, spawner);
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  static async #fill(folder: string, spawner: Spawner): Promise<SelfTestFixture> {
    const secret = randomBytes(16).toString('hex');
    const [workspace, outside] = [join(folder, 'workspace'), join(folder, 'outside')];
    await makeFiles(workspace, outside, secret);
    const [socket, abstractSocket] = [join(outside, 'socket'), `\0${folder}`];
    // Listening never fails, so it comes last.
    const bystander = await startBystander(spawner, secret);
    const servers = await Promise.all(
      [{ host: '127.0.0.1', port: 0 }, { path: socket }, { path: abstractSocket }].map(listen),
    );
    const port = (servers[0]!.address() as AddressInfo | null)?.port ?? 0;
    const targets = { workspace, outside, secret, bystander: bystander.pid, port, socket, abstractSocket };
    return new SelfTestFixture(folder, targets, servers, bystander);
  }

  private constructor(folder: string, targets: Targets, servers: readonly Server[], bystander: Child) {
    this.targets = targets;
    this.#folder = folder;
    this.#servers = servers;
    this.#bystander = bystander;
  }

  /** Reads the whole disk and writes the workspace, without network. Some paths in the workspace are denied. */
  get policy(): SandboxPolicy {
    return this.#policy('read');
  }

  /** The same, but writes the whole disk except the denied paths. */
  get diskPolicy(): SandboxPolicy {
    return this.#policy('write');
  }

  async close(): Promise<void> {
    await this.#bystander.killTree();
    this.#bystander.release();
    for (const server of this.#servers) server.close();
    await rm(this.#folder, { recursive: true, force: true });
  }

  #policy(diskAccess: 'read' | 'write'): SandboxPolicy {
    const { workspace } = this.targets;
    const root = pathToFileURL(workspace).href;
    const inside = (subpath: string) => ({ kind: 'project_roots', subpath }) as const;
    return policyOf(
      {
        permissions: {
          type: 'managed',
          file_system: {
            type: 'restricted',
            entries: [
              { path: { type: 'special', value: { kind: 'root' } }, access: diskAccess },
              { path: { type: 'special', value: inside('') }, access: 'write' },
              { path: { type: 'special', value: inside('above/denied') }, access: 'deny' },
              { path: { type: 'glob_pattern', pattern: '**/*.pem' }, access: 'deny' },
            ],
          },
          network: 'restricted',
        },
        cwd: root,
        workspaceRoots: [root],
        windowsSandboxLevel: 'disabled',
        useLegacyLandlock: false,
      },
      { cwd: null, tmpdir: undefined },
    );
  }
}

async function makeFiles(workspace: string, outside: string, secret: string): Promise<void> {
  for (const directory of [
    join(workspace, '.git'),
    join(workspace, 'above/denied'),
    join(workspace, 'empty'),
    outside,
  ]) {
    await mkdir(directory, { recursive: true });
  }
  const files = [
    join(workspace, '.git/config'),
    join(workspace, 'above/denied/file'),
    join(workspace, 'key.pem'),
    ...['changed', 'linked', 'hardlinked'].map((name) => join(outside, name)),
  ];
  await Promise.all(files.map((file) => writeFile(file, secret)));
  await symlink(join(outside, 'linked'), join(workspace, 'link'));
}

/** Ignores errors: without a listener the attempt also fails without a sandbox, and counts as untested. */
async function listen(where: ListenOptions): Promise<Server> {
  const server = createServer((socket) => socket.destroy()).unref();
  server.listen(where);
  await once(server, 'listening').catch(() => undefined);
  server.on('error', () => undefined);
  return server;
}

/** Starts a process that exits at the end of its stdin, so with this process at the latest. */
async function startBystander(spawner: Spawner, secret: string): Promise<Child> {
  const child = await spawner.spawn({
    program: '/bin/sh',
    argv: ['sh', '-c', 'read line'],
    cwd: '/',
    env: { SECRET: secret },
    io: { kind: 'pipe', stdin: 'open' },
  });
  for (const source of child.outputs) {
    source.listen(
      () => undefined,
      () => undefined,
    );
    source.resume();
  }
  return child;
}
