import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Incoming, TestClient } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));

/** The mount point of cgroup v2 and the group of this process; null without cgroup v2. */
const HIERARCHY = unifiedHierarchy();

function unifiedHierarchy(): { readonly mount: string; readonly group: string } | null {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
  const mount = mounts.find((line) => line.includes(' - cgroup2 '))?.split(' ')[4];
  const group = /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1];
  const ownMounts = spawnSync('unshare', ['-m', 'true']).status === 0;
  return mount === undefined || group === undefined || !ownMounts ? null : { mount, group };
}

let fakeGroups: string;
let home: string;
let server: ChildProcess | null;
let clients: TestClient[];

/** A fake of the cgroup file system: a directory that only the server sees in its place, so that the test can read what it writes. */
beforeEach(() => {
  fakeGroups = mkdtempSync(join(tmpdir(), 'session-limits-'));
  home = join(fakeGroups, HIERARCHY?.group ?? '');
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, 'cgroup.controllers'), 'cpu memory pids\n');
  writeFileSync(join(home, 'cgroup.subtree_control'), '');
  writeFileSync(join(home, 'cgroup.procs'), '');
  server = null;
  clients = [];
});
afterEach(async () => {
  await Promise.all(clients.map((client) => client.close()));
  if (server !== null && server.exitCode === null) {
    const exited = once(server, 'exit');
    server.kill('SIGTERM');
    await exited;
  }
  rmSync(fakeGroups, { recursive: true });
});

/** Runs the server in a mount namespace in which the fake is mounted over the hierarchy. */
function spawnServer(flags: readonly string[]): ChildProcess {
  const script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"';
  const command = [process.execPath, BIN, ...flags];
  server = spawn('unshare', ['-m', 'sh', '-c', script, 'sh', fakeGroups, HIERARCHY!.mount, ...command], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return server;
}

async function start(...flags: string[]): Promise<string> {
  const child = spawnServer(flags);
  const failed = once(child, 'exit').then(() => Promise.reject(new Error('the server has ended')));
  failed.catch(() => {});
  const [url] = await Promise.race([once(createInterface({ input: child.stdout! }), 'line'), failed]);
  return url;
}

async function connect(url: string): Promise<TestClient> {
  const client = await TestClient.connect(url);
  clients.push(client);
  await client.handshake();
  return client;
}

const group = (...path: string[]) => join(home, `exec-server-${server!.pid}-${path[0]}`, ...path.slice(1));
const text = (...path: string[]) => readFileSync(group(...path), 'utf8');

/** Starts a program that prints its process id and waits. */
async function startWaiting(
  client: TestClient,
  processId: string,
  lifetime: { type: 'session' | 'detached' } = { type: 'session' },
): Promise<number> {
  await client.call('process/start', { ...shell(processId, 'echo $$; read go'), pipeStdin: true, lifetime });
  const said = await client.waitFor(
    ({ method, params }: Incoming) =>
      method === 'process/output' && (params as { processId: string }).processId === processId,
  );
  return Number(Buffer.from((said.params as { chunk: string }).chunk, 'base64').toString());
}

/** The kernel removes a group with its files; in the fake the files must be removed first. The server may remove the group meanwhile. */
async function removed(path: string): Promise<void> {
  await waitFor(`the removal of ${path}`, () => {
    try {
      const files = readdirSync(path, { withFileTypes: true }).filter((entry) => entry.isFile());
      for (const file of files) unlinkSync(join(path, file.name));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    return !existsSync(path);
  });
}

describe.skipIf(HIERARCHY === null)(
  'a server with session limits (skipped without cgroup v2 or mount namespaces)',
  () => {
    test('puts the programs of a session into its group, which has the limits and is removed with the session', async () => {
      const url = await start(
        ...['--max-session-memory-bytes', '64MiB', '--max-session-cpu-percent', '50'],
        ...['--detached-session-ttl', '0'],
      );
      const [one, other] = [await connect(url), await connect(url)];
      const first = await startWaiting(one, 'p');
      const second = await startWaiting(one, 'q');
      const third = await startWaiting(other, 'p');
      expect(text('s1', 'memory.max')).toBe(String(64 * 1024 * 1024));
      expect(text('s1', 'cpu.max')).toBe('50000 100000');
      expect([text('s1', '1', 'cgroup.procs'), text('s1', '2', 'cgroup.procs')]).toEqual(
        [first, second].map(String),
      );
      expect([text('s2', 'memory.max'), text('s2', '1', 'cgroup.procs')]).toEqual([
        text('s1', 'memory.max'),
        String(third),
      ]);

      // The kernel has killed the first program, because the session exceeded its memory limit.
      writeFileSync(group('s1', '1', 'memory.events'), 'oom 1\noom_kill 1\n');
      process.kill(first, 'SIGKILL');
      await one.closedProcess('p');
      const exit = await one.waitFor(({ method }) => method === 'process/exited');
      expect(exit.params).toMatchObject({ processId: 'p', exitCode: 137, reason: 'oom' });

      await one.close();
      await removed(group('s1', '1'));
      await removed(group('s1', '2'));
      await removed(group('s1'));
      expect(text('s2', '1', 'cgroup.procs')).toBe(String(third));
    });

    test('starts no program beyond the process limit of the session', async () => {
      const client = await connect(await start('--max-session-pids', '5'));
      // The fake does not have the file with the number of processes yet.
      await expect(startWaiting(client, 'p')).rejects.toThrow(/pids\.current/);
      writeFileSync(group('s1', 'pids.current'), '5\n');
      await expect(startWaiting(client, 'p')).rejects.toThrow(/5 processes and threads.*maxSessionPids/);
      expect((await client.call('process/list', {})).processes).toEqual([]);
      writeFileSync(group('s1', 'pids.current'), '4\n');
      const pid = await startWaiting(client, 'p');
      expect([text('s1', 'pids.max'), text('s1', '1', 'cgroup.procs')]).toEqual(['5', String(pid)]);
    });

    test('limits the detached programs of an owner together, whichever sessions start them', async () => {
      const url = await start('--max-session-pids', '5', '--detached-session-ttl', '0');
      const [one, other] = [await connect(url), await connect(url)];
      const detached = { type: 'detached' } as const;
      // The session has limits of its own.
      await expect(startWaiting(one, 'own')).rejects.toThrow(/pids\.current/);
      writeFileSync(group('s1', 'pids.current'), '1\n');
      await startWaiting(one, 'own');
      await expect(startWaiting(one, 'p', detached)).rejects.toThrow(/pids\.current/);
      writeFileSync(group('s2', 'pids.current'), '4\n');
      const pid = await startWaiting(one, 'p', detached);
      expect([text('s2', 'pids.max'), text('s2', '1', 'cgroup.procs')]).toEqual(['5', String(pid)]);
      writeFileSync(group('s2', 'pids.current'), '5\n');
      for (const client of [one, other]) {
        await expect(startWaiting(client, 'q', detached)).rejects.toThrow(
          'the detached programs of this owner have 5 processes and threads, the configured maximum (maxSessionPids)',
        );
      }
      // The end of the session does not end the group of the owner.
      await one.close();
      await removed(group('s1', '1'));
      await removed(group('s1'));
      expect(text('s2', '1', 'cgroup.procs')).toBe(String(pid));
      const { processes } = await other.call('process/list', { scope: 'owner' });
      expect(processes).toHaveLength(1);
      await other.call('process/terminate', { processId: processes[0]!.ref! });
      await removed(group('s2', '1'));
    });

    test('does not start without the controllers and names those that are missing', async () => {
      writeFileSync(join(home, 'cgroup.controllers'), 'cpu\n');
      const child = spawnServer(['--max-session-pids', '5']);
      let said = '';
      child.stderr!.on('data', (chunk: Buffer) => {
        said += chunk;
      });
      const [code] = await once(child, 'close');
      expect(code).toBe(1);
      expect(said).toMatch(
        /--max-session-pids cannot be enforced: .*no controller for memory, pids.*Delegate=yes/,
      );
    });
  },
);
