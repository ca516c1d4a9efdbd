import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { FileThreads } from '../../src/files/file-threads.ts';
import { LARGE_WALK_ENTRIES } from '../../src/files/limits.ts';
import type * as CachedCalls from '../../src/native/cached-calls.ts';
import { SandboxPool } from '../../src/sandbox/linux/sandbox-pool.ts';
import { BusyPoll } from '../../src/server/busy-poll.ts';
import { startServer, type TestClient, type TestServer } from '../../src/testing/index.ts';
import { waitFor } from '../support/wait-for.ts';

/** How often each fast path was used in this process. */
const used = vi.hoisted(() => ({ busyPoll: 0, pageCache: 0, fileThreads: 0, writeSlot: 0, sandboxPool: 0 }));

vi.mock('../../src/native/cached-calls.ts', async (original) => ({
  loadCachedCalls: async () => {
    const calls = await (await original<typeof CachedCalls>()).loadCachedCalls();
    return new Proxy(calls, {
      get: (target, name: keyof typeof calls) => {
        used.pageCache++;
        return target[name];
      },
    });
  },
}));

/** Counts the calls of a method and still makes them. */
function count<T extends object>(prototype: T, method: keyof T & string, path: keyof typeof used): void {
  const original = prototype[method] as (...args: unknown[]) => unknown;
  vi.spyOn(prototype as Record<string, (...args: unknown[]) => unknown>, method).mockImplementation(function (
    this: T,
    ...args
  ) {
    used[path]++;
    return original.apply(this, args);
  });
}

let folder: string;
let servers: TestServer[];

beforeEach(() => {
  // Not /tmp: a sandbox mounts over it, and then the kernel's cache has no answer for paths below it.
  folder = mkdtempSync(join('/var/tmp', 'fast-paths-'));
  mkdirSync(join(folder, 'tree'));
  for (let file = 0; file < LARGE_WALK_ENTRIES; file++) writeFileSync(join(folder, 'tree', `${file}`), '');
  servers = [];
  count(BusyPoll.prototype, 'start', 'busyPoll');
  count(BusyPoll.prototype, 'stop', 'busyPoll');
  count(FileThreads.prototype, 'prepare', 'fileThreads');
  count(FileThreads.prototype, 'run', 'fileThreads');
  count(FileThreads.prototype, 'write', 'writeSlot');
  count(SandboxPool.prototype, 'take', 'sandboxPool');
  count(SandboxPool.prototype, 'prebuild', 'sandboxPool');
});

afterEach(async () => {
  await Promise.all(servers.map((server) => server.close()));
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true });
});

async function connect(fastPaths: boolean): Promise<TestClient> {
  const server = await startServer({ fastPaths });
  servers.push(server);
  return await server.connect();
}

const uri = (name: string) => pathToFileURL(join(folder, name)).href;
const EVERYTHING = { maxDepth: 9, maxDirectories: 100, maxEntries: 5_000, followDirectorySymlinks: false };

/** Requests that use every fast path, if the server has them. Returns the answers. */
async function exercise(client: TestClient, round: number): Promise<unknown[]> {
  const dataBase64 = Buffer.from(`content ${round}`).toString('base64');
  const answers: unknown[] = [
    await client.call('fs/writeFile', { path: uri('file'), dataBase64 }),
    await client.call('fs/readFile', { path: uri('file') }),
    (await client.call('fs/getMetadata', { path: uri('file') })).size,
    await client.call('fs/walk', { path: uri('tree'), options: EVERYTHING }),
  ];
  const processId = `p${round}`;
  const sandbox = { type: 'workspaceWrite', cwd: uri('') } as const;
  const argv = ['/bin/sh', '-c', 'cat file; echo done > made; ! touch /usr/made 2>/dev/null'];
  await client.call('process/start', { processId, argv, cwd: uri(''), env: {}, tty: false, sandbox });
  const closed = await client.closedProcess(processId);
  answers.push(closed.bytes('stdout').toString(), closed.exitCode);
  answers.push(await client.call('fs/readFile', { path: uri('made') }));
  return answers;
}

test('a server with fast paths and one without, in one process, give the same answers', async () => {
  const fast = await connect(true);
  let round = 0;
  await waitFor('the use of every fast path', async () => {
    await exercise(fast, ++round);
    return Object.values(used).every((count) => count > 0);
  });
  const answers = await exercise(fast, ++round);
  expect(answers[4]).toBe(`content ${round}`);

  const plain = await connect(false);
  const before = { ...used };
  for (let again = 0; again < 3; again++) await exercise(plain, again);
  expect(await exercise(plain, round)).toEqual(answers);
  expect(used).toEqual(before);
});
