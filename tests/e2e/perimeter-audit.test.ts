import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type ServerProcess, startServerProcess, TestClient } from '../../src/testing/index.ts';
import { base64, plain, shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));

let folder: string;
let log: string;
let server: ServerProcess | null;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'audit-e2e-'));
  log = join(folder, 'audit.jsonl');
  server = null;
});
afterEach(async () => {
  await server?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function start(...flags: string[]): Promise<ServerProcess> {
  server = await startServerProcess(['--audit-log', log, ...flags]);
  return server;
}

const lines = (file = log): Record<string, unknown>[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
const events = (file = log) => lines(file).map(({ event }) => event);
const find = (event: string) => lines().find((line) => line.event === event);
const verify = (...files: string[]) =>
  spawnSync(process.execPath, [BIN, 'audit', 'verify', ...files], { encoding: 'utf8' });

test('records who attached to a process, who was taken over, who detached, and a new lifetime', async () => {
  const [owner, other] = [await (await start()).connect(), await TestClient.connect(server!.url)];
  await other.handshake({ clientName: 'other' });
  await owner.call('process/start', { ...shell('p', 'sleep 60'), name: 'job' });
  const { ref } = await other.call('process/attach', { name: 'job', role: 'driver', takeOver: true });
  await other.close();
  await waitFor('the detach', () => find('detach'));
  await owner.call('process/setLifetime', { processId: 'p', lifetime: { type: 'detached' } });
  await waitFor('the lifetime', () => find('lifetime'));
  expect(find('lifetime')).toMatchObject({ ref, lifetime: 'detached', retainMs: 3_600_000 });
  expect(find('start')).toMatchObject({ processId: 'p', ref });
  expect(find('attach')).toMatchObject({ ref, role: 'driver', takenOverFrom: 'test' });
  expect(find('detach')).toMatchObject({ ref, connection: find('attach')!.connection });
  await owner.close();
});

test('records connections, starts and exits in a chain that verifies', async () => {
  const client = await (await start()).connect();
  const secret = { ...plain.env, MY_TOKEN: 'hunter2' };
  const argv = ['/bin/sh', '-c', 'echo hello; exit 3', '--password', 'hunter2'];
  await client.call('process/start', { processId: 'p', argv, ...plain, env: secret });
  // The start is recorded before its response.
  expect(find('start')).toMatchObject({
    processId: 'p',
    argv: ['/bin/sh', '-c', 'echo hello; exit 3', '--password', '***'],
    cwd: '/',
    envNames: ['PATH', 'MY_TOKEN'],
    tty: false,
    who: { kind: 'anonymous', tokenId: null, address: '127.0.0.1' },
    policy: { sandbox: 'none' },
  });
  await client.closedProcess('p');
  await client.close();
  await waitFor('the end of the connection', () => find('disconnected'));
  await server!.close();
  expect(events()).toEqual(['opened', 'connected', 'session', 'start', 'exit', 'disconnected', 'closed']);
  expect(find('exit')).toMatchObject({ processId: 'p', exitCode: 3, reason: null, outputBytes: 6 });
  expect(readFileSync(log, 'utf8')).not.toContain('hunter2');
  expect(verify(log)).toMatchObject({ status: 0, stdout: expect.stringMatching(/^valid: 7 lines/) });
});

test('records file changes with outcome and size, but no reads', async () => {
  const client = await (await start()).connect();
  const path = `file://${folder}/f`;
  await client.call('fs/writeFile', { path, dataBase64: base64('12345') });
  await client.call('fs/readFile', { path });
  await client.call('fs/createDirectory', { path: `file://${folder}/d`, recursive: false });
  await expect(
    client.call('fs/createDirectory', { path: `file://${folder}/d`, recursive: false }),
  ).rejects.toThrow();
  await client.call('fs/rename', { sourcePath: path, destinationPath: `${path}2` });
  await client.call('fs/setAttributes', { path: `${path}2`, mode: 0o600 });
  await client.call('fs/createLink', { path, target: 'f2' });
  await client.call('fs/list', { paths: [path] });
  await client.call('fs/open', { handleId: 'h', path, mode: 'replace' });
  await client.call('fs/writeBlock', { handleId: 'h', offset: 0, chunk: base64('1234') });
  await client.call('fs/writeBlock', { handleId: 'h', offset: 4, chunk: base64('5678') });
  await client.call('fs/close', { handleId: 'h' });
  await client.call('fs/remove', { path });
  const changes = lines()
    .filter(({ event }) => event === 'file')
    .map(({ method, paths, bytes, outcome }) => [method, (paths as string[]).length, bytes, outcome]);
  expect(changes).toEqual([
    ['fs/writeFile', 1, 5, 'done'],
    ['fs/createDirectory', 1, null, 'done'],
    ['fs/createDirectory', 1, null, 'failed'],
    ['fs/rename', 2, null, 'done'],
    ['fs/setAttributes', 1, null, 'done'],
    ['fs/createLink', 1, null, 'done'],
    ['fs/open', 1, null, 'done'],
    ['fs/close', 1, 8, 'done'],
    ['fs/remove', 1, null, 'done'],
  ]);
});

test('records rejected connections and refused requests', async () => {
  const { url } = await start('--max-processes', '1');
  await expect(TestClient.connect(url, { origin: 'https://evil.example' })).rejects.toThrow('403');
  await waitFor('the record', () => find('connectionRejected'));
  expect(find('connectionRejected')).toMatchObject({ status: 403, address: '127.0.0.1' });
  const client = await server!.connect();
  await client.call('process/start', shell('one', 'sleep 1000'));
  await expect(client.call('process/start', shell('two', 'true'))).rejects.toThrow(/maxProcesses/);
  await waitFor('the refusal', () => find('refused'));
  expect(find('refused')).toMatchObject({
    method: 'process/start',
    reason: expect.stringContaining('maxProcesses'),
    who: { address: '127.0.0.1' },
  });
});

test('records a program that cannot be started', async () => {
  const client = await (await start()).connect();
  await expect(
    client.call('process/start', { ...shell('p', 'x'), cwd: 'file:///nowhere' }),
  ).rejects.toThrow();
  await waitFor('the record', () => find('startFailed'));
  expect(find('startFailed')).toMatchObject({ processId: 'p', reason: expect.stringContaining('/nowhere') });
});

test('continues in a new log on SIGHUP after the old one was moved away', async () => {
  const client = await (await start()).connect();
  renameSync(log, `${log}.1`);
  server!.process.kill('SIGHUP');
  await waitFor('the new file', () => {
    try {
      return events().includes('continued');
    } catch {
      return false;
    }
  });
  await client.call('process/start', shell('p', 'true'));
  await client.closedProcess('p');
  await server!.close();
  expect(events(`${log}.1`)).toEqual(['opened', 'connected', 'session']);
  expect(events().slice(0, 2)).toEqual(['continued', 'start']);
  expect(verify(`${log}.1`, log)).toMatchObject({ status: 0 });
});

test('verify names the first changed line, also after another server has continued the log', async () => {
  await start();
  await server!.close();
  await start();
  await server!.close();
  const text = readFileSync(log, 'utf8');
  writeFileSync(log, text.replace('"event":"closed"', '"event":"clOsed"'));
  expect(verify(log)).toMatchObject({ status: 1, stderr: expect.stringMatching(/audit\.jsonl: line 3: /) });
  await start();
  await server!.close();
  expect(verify(log)).toMatchObject({ status: 1, stderr: expect.stringContaining('line 3') });
});

test('does not start when the audit log cannot be written', async () => {
  const failed = spawnSync(process.execPath, [BIN, '--audit-log', join(folder, 'no', 'log')], {
    encoding: 'utf8',
  });
  expect(failed).toMatchObject({
    status: 1,
    stdout: '',
    stderr: `exec-server: cannot keep the audit log ${join(folder, 'no', 'log')}: no such file or directory (--audit-log names another)\n`,
  });
});

/** Mounts a file system of a few pages, which fills up. */
function mountTiny(path: string): boolean {
  mkdirSync(path);
  return spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=16k', 'tmpfs', path]).status === 0;
}

test('on a full disk starts no program and changes no file, while running programs continue; later all is recorded', async ({
  skip,
}) => {
  const disk = join(folder, 'disk');
  if (!mountTiny(disk)) skip('this system does not allow to mount a tmpfs');
  try {
    log = join(disk, 'audit.jsonl');
    const client = await (await start()).connect();
    await client.call('process/start', { ...shell('running', 'cat'), pipeStdin: true });
    writeFileSync(join(disk, 'filler'), '');
    spawnSync('dd', ['if=/dev/zero', `of=${join(disk, 'filler')}`, 'bs=1k', 'count=100']);
    let started = 0;
    const refusal = await (async () => {
      for (;;) {
        const one = client.call('process/start', shell(`p${started}`, 'true'));
        const error = await one.then(
          () => null,
          (reason: Error) => reason,
        );
        if (error !== null) return error;
        started++;
      }
    })();
    expect(refusal.message).toMatch(/audit log cannot be written \(ENOSPC.*new work is refused/);
    const path = `file://${folder}/f`;
    await expect(client.call('fs/writeFile', { path, dataBase64: '' })).rejects.toThrow(/audit log/);
    await expect(client.call('fs/readFile', { path })).rejects.toThrow(/No such file/);

    await client.call('process/write', { processId: 'running', chunk: base64('still here\n') });
    await client.call('process/closeStdin', { processId: 'running' });
    expect((await client.closedProcess('running')).text()).toBe('still here\n');
    expect(lines().some(({ event, processId }) => event === 'exit' && processId === 'running')).toBe(false);

    rmSync(join(disk, 'filler'));
    await waitFor('the record of the exit', () =>
      lines().some(({ event, processId }) => event === 'exit' && processId === 'running'),
    );
    await client.call('process/start', shell('after', 'true'));
    await client.closedProcess('after');
    await server!.close();
    server = null;
    expect(verify(log)).toMatchObject({ status: 0 });
    expect(events().filter((event) => event === 'lost')).toEqual([]);
  } finally {
    await server?.close();
    server = null;
    execFileSync('umount', [disk]);
  }
});
