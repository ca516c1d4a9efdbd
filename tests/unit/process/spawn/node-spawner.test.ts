import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { createSpawner } from '../../../../src/process/spawn/create-spawner.ts';
import type { Spawner } from '../../../../src/process/spawn/spawner.ts';
import {
  childPids,
  command,
  INPUT,
  openDescriptors,
  record,
  run,
  shell,
  TERMINAL,
} from '../../../support/children.ts';
import { waitFor } from '../../../support/wait-for.ts';

let spawner: Spawner;
let descriptorsAtStart: number;

beforeAll(async () => {
  spawner = await createSpawner({ native: false });
  await run(spawner, shell('exit 0'));
  descriptorsAtStart = openDescriptors();
});

afterEach(() => waitFor('descriptors to be closed', () => openDescriptors() === descriptorsAtStart));

afterAll(async () => {
  await spawner.close();
  await expect(spawner.spawn(shell('exit 0'))).rejects.toMatchObject({ code: 'ECANCELED' });
  expect(childPids()).toEqual([]);
});

test('runs programs with their streams, environment, argv[0] and working directory', async () => {
  const spec = { ...command(['/bin/sh']), argv: ['zero', '-c', 'echo $0 $A $PWD; echo err >&2; exit 3'] };
  expect(await run(spawner, { ...spec, cwd: '/tmp', env: { A: 'b' } })).toEqual({
    stdout: 'zero b /tmp\n',
    stderr: 'err\n',
    pty: '',
    status: { code: 3, signal: null },
  });
  expect((await run(spawner, shell('kill -9 $$'))).status).toEqual({ code: null, signal: 9 });
});

test('gives each program its own session', async () => {
  const { stdout } = await run(spawner, shell('cut -d" " -f1,5,6 /proc/$$/stat'));
  expect(new Set(stdout.trim().split(' ')).size).toBe(1);
});

test('writes input in order and reports its failure', async () => {
  const transcript = record(await spawner.spawn(shell('head -c 3', INPUT)));
  const { stdin } = transcript.child;
  await new Promise((resolve) => stdin?.write(Buffer.from('abc'), resolve));
  await transcript.exited;
  const failure = new Promise((resolve) => stdin?.write(Buffer.alloc(1_000_000), resolve));
  expect(await failure).toBeInstanceOf(Error);
  expect(transcript.text('stdout')).toBe('abc');
  transcript.child.release();
});

test('delivers nothing while paused and everything afterwards', async () => {
  const transcript = record(await spawner.spawn(shell('seq 1 5000')), { paused: true });
  await transcript.exited;
  expect(transcript.bytes('stdout')).toBe(0);
  for (const source of transcript.child.outputs) source.resume();
  await transcript.ended;
  expect(transcript.text('stdout')).toMatch(/\n5000\n$/);
  transcript.child.release();
});

test.each([
  [{ ...command(['/bin/sh']), cwd: '/no/such' }, 'ENOENT', 'cwd /no/such does not exist'],
  [command(['/no/such']), 'ENOENT', 'program /no/such does not exist'],
  [{ ...command(['zzz']), env: { PATH: '/a' } }, 'ENOENT', 'program not found on PATH: zzz (PATH=/a)'],
  [command(['/tmp']), 'EACCES', '/tmp is not a regular file'],
  [
    { ...command(['/bin/sh']), argv: ['sh', 'x'.repeat(200_000)] },
    'E2BIG',
    'the arguments and environment of /bin/sh are too long',
  ],
  [{ ...command(['/bin/sh']), argv: ['\0'] }, 'EINVAL', 'argv[0] contains a NUL byte'],
])('refuses %j', async (spec, code, message) => {
  await expect(spawner.spawn(spec)).rejects.toMatchObject({ name: 'SpawnError', code, message });
});

test('has no terminals and reports why', async () => {
  expect(spawner.pty).toEqual({
    available: false,
    reason: 'terminals are switched off (nativeSpawn is false)',
  });
  await expect(spawner.spawn(shell('exit 0', TERMINAL))).rejects.toMatchObject({ code: 'ENOTSUP' });
  const child = await spawner.spawn(shell('exit 0'));
  expect(() => child.resize(1, 1)).toThrow('the process has no terminal');
  const transcript = record(child);
  await Promise.all([transcript.exited, transcript.ended]);
  child.release();
});

test('is used with a reason when the native library cannot be loaded', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'no-koffi-'));
  for (const part of ['base', 'process', 'native']) {
    cpSync(join(import.meta.dirname, '../../../../dist', part), join(folder, part), { recursive: true });
  }
  const script = `
    const { createSpawner } = await import('${folder}/process/spawn/create-spawner.js');
    console.log(JSON.stringify((await createSpawner()).pty));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
  rmSync(folder, { recursive: true });
  const { available, reason } = JSON.parse(stdout) as { available: boolean; reason: string };
  expect(available).toBe(false);
  expect(reason).toMatch(/^terminals are not available: .*koffi/);
});

test('is not the default on this system', async () => {
  const best = await createSpawner();
  expect(best.pty).toEqual({ available: true });
  await best.close();
});
