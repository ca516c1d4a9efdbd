import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type ServerProcess, startServerProcess, TestClient } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';

const SECRET = 'do-not-tell-4711';
const NOBODY = 65_534;
const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
const isRoot = process.getuid?.() === 0;

let stop: (() => Promise<void>)[];
beforeEach(() => {
  stop = [];
});
afterEach(async () => {
  for (const end of stop) await end();
});

async function server(env: Record<string, string>): Promise<ServerProcess> {
  const started = await startServerProcess([], env);
  stop.push(() => started.close());
  return started;
}

/** A server that runs as another user. */
async function serverOfNobody(env: Record<string, string>, flags: string[] = []): Promise<TestClient> {
  const home = mkdtempSync(join(tmpdir(), 'nobody-'));
  chmodSync(home, 0o777);
  const child = spawn(process.execPath, [BIN, ...flags], {
    uid: NOBODY,
    gid: NOBODY,
    cwd: '/',
    env: { PATH: process.env.PATH, HOME: home, ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  stop.push(async () => {
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    await exited;
    rmSync(home, { recursive: true, force: true });
  });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const client = await TestClient.connect(line.toString().trim());
  await client.handshake();
  return client;
}

async function output(client: TestClient, script: string, more: object = {}): Promise<string> {
  await client.call('process/start', { ...shell('probe', script), ...more });
  return (await client.closedProcess('probe')).text();
}

const everything = { inherit: 'all', ignoreDefaultExcludes: true, exclude: [], set: {}, includeOnly: [] };

test('removes the environment of the server from /proc/PID/environ', async () => {
  const client = await (await server({ MY_SECRET: SECRET, EDITOR: 'vi' })).connect();
  const read = await output(client, 'echo "[$(tr -d "\\0" </proc/$PPID/environ)]"');
  expect(read).toBe('[]\n');
});

test('keeps the environment for the server itself', async () => {
  const client = await (await server({ MY_SECRET: SECRET, EDITOR: 'vi' })).connect();
  const inherited = await output(client, 'echo $EDITOR $MY_SECRET $PATH', { envPolicy: everything });
  expect(inherited).toBe(`vi ${SECRET} ${process.env.PATH}\n`);
});

test('does not pass loader variables and settings to programs, and writes no core files', async () => {
  const client = await (
    await server({ LD_LIBRARY_PATH: '/nowhere', EXEC_SERVER_LOG_LEVEL: 'error' })
  ).connect();
  const read = await output(
    client,
    'env | grep -E "^(LD_|EXEC_SERVER_)"; grep "Max core" /proc/$PPID/limits',
    {
      envPolicy: everything,
    },
  );
  expect(read).toMatch(/^Max core file size +0 +/);
});

test.runIf(isRoot)(
  'a program of the same unprivileged user cannot read the memory and files of the server',
  async () => {
    const client = await serverOfNobody({ MY_SECRET: SECRET });
    const read = await output(
      client,
      'id -u; for f in environ mem maps fd; do head -c 1 /proc/$PPID/$f 2>&1; ls /proc/$PPID/$f/0 2>&1; done; tr "\\0" "\\n" </proc/self/environ',
    );
    expect(read.split('\n')[0]).toBe(String(NOBODY));
    for (const file of ['environ', 'mem', 'maps']) {
      expect(read).toMatch(new RegExp(`/proc/\\d+/${file}.*: Permission denied`));
    }
    expect(read).toMatch(/fd\/0'?: Permission denied/);
    expect(read).not.toContain(SECRET);
  },
);

test.runIf(isRoot)('an undumpable server of another user works otherwise', async () => {
  const client = await serverOfNobody({});
  const folder = mkdtempSync(join(tmpdir(), 'undumpable-'));
  try {
    chmodSync(folder, 0o755);
    writeFileSync(join(folder, 'file'), 'content', { mode: 0o644 });
    symlinkSync('file', join(folder, 'link'));
    // The first start makes the server undumpable.
    expect(await output(client, 'echo started')).toBe('started\n');
    const path = `file://${folder}/file`;
    const read = await client.call('fs/readFile', { path, followSymlinks: false });
    expect(Buffer.from(read.dataBase64, 'base64').toString()).toBe('content');
    await expect(
      client.call('fs/readFile', { path: `file://${folder}/link`, followSymlinks: false }),
    ).rejects.toThrow();
    await client.call('process/start', { ...shell('tty', 'tty'), tty: true });
    expect((await client.closedProcess('tty')).text()).toMatch(/^\/dev\/pts\//);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test.runIf(isRoot)('memory protection can be switched off for a debugger', async () => {
  const client = await serverOfNobody({}, ['--no-protect-memory']);
  expect(Number(await output(client, 'grep -c . /proc/$PPID/maps'))).toBeGreaterThan(0);
});
