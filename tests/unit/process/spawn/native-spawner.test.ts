import { chmodSync, closeSync, copyFileSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import type { SpawnSpec } from '../../../../src/process/spawn/spawner.ts';
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
import { withFreeDescriptors } from '../../../support/descriptor-limit.ts';
import { waitFor } from '../../../support/wait-for.ts';

const libc = loadLibc();
let spawner: NativeSpawner;
let folder: string;
let descriptorsAtStart: number;

beforeAll(async () => {
  spawner = new NativeSpawner(libc);
  folder = mkdtempSync(join(tmpdir(), 'spawner-'));
  await run(spawner, shell('exit 0'));
  await run(spawner, shell('exit 0', TERMINAL));
  descriptorsAtStart = openDescriptors();
});

afterEach(() => expect(openDescriptors()).toBe(descriptorsAtStart));

afterAll(async () => {
  await spawner.close();
  rmSync(folder, { recursive: true });
  expect(childPids()).toEqual([]);
});

function script(name: string, text: string, mode = 0o755): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

describe('a child gets', () => {
  test('its output streams, exit code and exact environment', async () => {
    const spec = { ...command(['/usr/bin/env']), env: { A: 'b c', '': 'nameless', 'K=X': 'v', Ü: 'ä' } };
    expect(await run(spawner, spec)).toMatchObject({ stdout: 'A=b c\n=nameless\nK=X=v\nÜ=ä\n' });
    expect(await run(spawner, shell('echo out; echo err >&2; exit 3'))).toEqual({
      stdout: 'out\n',
      stderr: 'err\n',
      pty: '',
      status: { code: 3, signal: null },
    });
  });

  test.each([9, 15, 6])('its end by signal %i reported', async (signal) => {
    const { status } = await run(spawner, shell(`kill -${signal} $$`));
    expect(status).toEqual({ code: null, signal });
  });

  test.each([
    ['pipe', shell('')],
    ['pty', shell('', TERMINAL)],
  ])('its own argv[0] on a %s', async (_, spec) => {
    const argv = ['my-zero', '-c', 'echo "$0"; tr "\\0" " " < /proc/$$/cmdline'];
    const outcome = await run(spawner, { ...spec, program: '/bin/sh', argv });
    expect(outcome.stdout + outcome.pty).toContain('my-zero -c');
  });

  test('an empty argv[0]', async () => {
    const spec = { ...command(['/bin/cat']), argv: ['', '/proc/self/cmdline'] };
    expect((await run(spawner, spec)).stdout).toBe('\0/proc/self/cmdline\0');
  });

  test('exactly descriptors 0, 1 and 2, which are pipes, with /dev/null as closed stdin', async () => {
    const held = openSync('/dev/null', 'r');
    const { stdout } = await run(spawner, command(['/bin/ls', '-l', '/proc/self/fd']));
    closeSync(held);
    const links = stdout.match(/\d+ -> \S+/g) ?? [];
    expect(links[0]).toBe('0 -> /dev/null');
    expect(links[1]).toMatch(/^1 -> pipe:/);
    expect(links[2]).toMatch(/^2 -> pipe:/);
    // ls itself opens the directory that it lists.
    expect(links[3]).toMatch(/^3 -> \/proc/);
    expect(links).toHaveLength(4);
  });

  test('exactly the terminal as descriptors 0, 1 and 2', async () => {
    const { pty } = await run(spawner, { ...command(['/bin/ls', '-l', '/proc/self/fd']), io: TERMINAL });
    const links = pty.match(/\d+ -> \S+/g) ?? [];
    expect(new Set(links.slice(0, 3).map((link) => link.slice(5))).size).toBe(1);
    expect(links[0]).toMatch(/^0 -> \/dev\/pts\/\d+$/);
    expect(links).toHaveLength(4);
  });

  test('pipes that it can open again', async () => {
    expect(await run(spawner, shell('echo again > /dev/stdout'))).toMatchObject({ stdout: 'again\n' });
  });

  test('default signal dispositions and no blocked signal', async () => {
    const { stdout } = await run(spawner, command(['/bin/grep', 'Sig[BI]', '/proc/self/status']));
    expect(stdout).toBe('SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n');
  });

  test.each([
    ['pipe', shell('')],
    ['pty', shell('', TERMINAL)],
  ])('its own session and group on a %s, and no core dumps', async (_, { io }) => {
    const text = 'ulimit -c; cut -d" " -f1,5,6 /proc/$$/stat';
    const outcome = await run(spawner, shell(text, io));
    const [core, ids = ''] = (outcome.stdout + outcome.pty).split(/\r?\n/);
    expect(core).toBe('0');
    expect(new Set(ids.split(' ')).size).toBe(1);
  });

  test('the other limits of the server', async () => {
    const before = libc.readLimit(0, 15)?.slice();
    const core = libc.readLimit(0, 4)?.slice();
    libc.writeLimit(4, 4096n, core![1]!);
    await run(spawner, shell('exit 0'));
    expect(libc.readLimit(0, 4)?.[0]).toBe(4096n);
    libc.writeLimit(4, core![0]!, core![1]!);
    expect(libc.readLimit(0, 15)).toEqual(before);
  });

  test('its working directory, against which a relative program is resolved', async () => {
    script('here.sh', '#!/bin/sh\necho "$0 in $PWD"\n');
    const spec = { ...command(['./here.sh']), cwd: folder };
    expect((await run(spawner, spec)).stdout).toBe(`./here.sh in ${folder}\n`);
    const found = { ...command(['here.sh']), cwd: folder, env: { PATH: ':/bin' } };
    expect((await run(spawner, found)).stdout).toBe(`./here.sh in ${folder}\n`);
  });

  test('a controlling terminal on a pty and none on a pipe', async () => {
    const text = 'echo seen > /dev/tty';
    expect((await run(spawner, shell(text, TERMINAL))).pty).toBe('seen\r\n');
    expect((await run(spawner, shell(text))).stderr).toMatch(/No such device or address/);
  });

  test('a terminal of the requested size, which can be changed', async () => {
    const io = { kind: 'pty', rows: 7, cols: 133 } as const;
    const transcript = record(await spawner.spawn(shell('stty size; read line; stty size', io)));
    await waitFor('the first size', () => transcript.text('pty').includes('7 133'));
    transcript.child.resize(50, 60);
    transcript.child.stdin?.write(Buffer.from('\n'), () => {});
    await transcript.ended;
    expect(transcript.text('pty')).toContain('50 60');
    transcript.child.release();
  });

  test('large argument lists', async () => {
    const argv = ['sh', '-c', 'echo $#', ...Array<string>(10_000).fill('x'.repeat(100))];
    expect((await run(spawner, { ...command(['/bin/sh']), argv })).stdout).toBe('9999\n');
  });
});

describe('stdin', () => {
  test('arrives in order and ends with end()', async () => {
    const transcript = record(await spawner.spawn(shell('cat; echo ended', INPUT)));
    const { stdin } = transcript.child;
    const results: (Error | null)[] = [];
    for (const text of ['a', 'b', 'c']) stdin?.write(Buffer.from(text), (error) => results.push(error));
    stdin?.end();
    await transcript.ended;
    expect(transcript.text('stdout')).toBe('abcended\n');
    expect(results).toEqual([null, null, null]);
    transcript.child.release();
  });

  test('ends immediately when nothing was written', async () => {
    const transcript = record(await spawner.spawn(shell('cat; echo ended', INPUT)));
    transcript.child.stdin?.end();
    await transcript.ended;
    expect(transcript.text('stdout')).toBe('ended\n');
    transcript.child.release();
  });

  test('fails with EPIPE when no process reads, and waits without blocking when the pipe is full', async () => {
    const { child, exited } = record(await spawner.spawn(shell('sleep 1000', INPUT)));
    const failed = new Promise<Error | null>((resolve) =>
      child.stdin?.write(Buffer.alloc(1_000_000), resolve),
    );
    await run(spawner, shell('exit 0'));
    child.signalGroup(9);
    await exited;
    expect(await failed).toMatchObject({ code: 'EPIPE' });
    child.release();
  });

  test('reaches a terminal without blocking, even more than its queue holds', async () => {
    const text = 'stty raw -echo; echo ready; head -c 300000 | wc -c';
    const transcript = record(await spawner.spawn(shell(text, TERMINAL)));
    await waitFor('raw mode', () => transcript.text('pty').includes('ready'));
    const { stdin } = transcript.child;
    const written = new Promise<Error | null>((resolve) => stdin?.write(Buffer.alloc(300_000, 'x'), resolve));
    expect(await written).toBeNull();
    await transcript.ended;
    expect(transcript.text('pty')).toContain('300000');
    expect(() => stdin?.end()).toThrow(/cannot be closed/);
    transcript.child.release();
  });

  test('fails on a full terminal when it is destroyed', async () => {
    const { child } = record(await spawner.spawn(shell('stty raw -echo; echo ready; sleep 1000', TERMINAL)));
    const failed = new Promise<Error | null>((resolve) =>
      child.stdin?.write(Buffer.alloc(1_000_000), resolve),
    );
    child.stdin?.destroy();
    expect(await failed).toMatchObject({ code: 'EPIPE' });
    await child.killTree();
    child.release();
  });
});

describe('a failed start', () => {
  const sh = command(['/bin/sh']);
  const cases: [string, () => SpawnSpec, string, string | RegExp][] = [
    ['missing cwd', () => ({ ...sh, cwd: '/no/such' }), 'ENOENT', 'cwd /no/such does not exist'],
    ['file as cwd', () => ({ ...sh, cwd: '/etc/passwd' }), 'ENOTDIR', 'cwd /etc/passwd is not a directory'],
    ['missing program', () => command(['/no/such']), 'ENOENT', 'program /no/such does not exist'],
    [
      'name not on PATH',
      () => ({ ...command(['zzz']), env: { PATH: '/a:/b' } }),
      'ENOENT',
      'program not found on PATH: zzz (PATH=/a:/b)',
    ],
    ['directory', () => command(['/tmp']), 'EACCES', '/tmp is not a regular file'],
    ['plain file', () => command([script('plain', 'x', 0o644)]), 'EACCES', /plain is not executable$/],
    [
      'no #! line',
      () => command([script('nohash', 'echo hi\n')]),
      'ENOEXEC',
      /not a valid executable \(no #! line\?\)$/,
    ],
    [
      'bad interpreter',
      () => command([script('badint', '#!/no/such\n')]),
      'ENOENT',
      /the interpreter or loader it names does not exist$/,
    ],
    ['long argument', () => ({ ...sh, argv: ['sh', 'x'.repeat(200_000)] }), 'E2BIG', /too long$/],
    [
      'many arguments',
      () => ({ ...sh, argv: Array<string>(40_000).fill('x'.repeat(100)) }),
      'E2BIG',
      /too long$/,
    ],
    ['NUL in program', () => command(['/bin/s\0h']), 'EINVAL', 'program contains a NUL byte'],
    ['NUL in cwd', () => ({ ...sh, cwd: '/\0' }), 'EINVAL', 'cwd contains a NUL byte'],
    ['NUL in argv', () => ({ ...sh, argv: ['a', '\0'] }), 'EINVAL', 'argv[1] contains a NUL byte'],
    [
      'NUL in a value',
      () => ({ ...sh, env: { A: '\0' } }),
      'EINVAL',
      'environment variable A contains a NUL byte',
    ],
    [
      'NUL in a name',
      () => ({ ...sh, env: { 'A\0': '' } }),
      'EINVAL',
      'the name of an environment variable contains a NUL byte',
    ],
  ];

  test.each(cases)('%s: reports the reason', async (_, spec, code, message) => {
    for (const io of [sh.io, INPUT, TERMINAL]) {
      const failure = await spawner.spawn({ ...spec(), io }).catch((error: unknown) => error);
      expect(failure).toMatchObject({ name: 'SpawnError', code });
      expect((failure as Error).message).toMatch(message);
    }
  });

  test('reports a program that is open for writing', async () => {
    const path = join(folder, 'busy');
    copyFileSync('/bin/true', path);
    const writer = openSync(path, 'r+');
    await expect(spawner.spawn(command([path]))).rejects.toMatchObject({ code: 'ETXTBSY' });
    closeSync(writer);
  });

  test.each([0, 2, 3, 4])(
    'with %i free descriptors: reports EMFILE and closes what it opened',
    async (free) => {
      const failure = await withFreeDescriptors(free, () =>
        spawner.spawn({ ...sh, io: INPUT }).catch((error: unknown) => error),
      );
      expect(failure).toMatchObject({ name: 'SpawnError', code: 'EMFILE' });
    },
  );

  test.each(['ENOENT', 'EACCES', 'ENODEV'])(
    'does not blame the program where terminals cannot be opened (%s)',
    async (code) => {
      const refusal = Object.assign(new Error(`posix_openpt: ${code}`), { code, syscall: 'posix_openpt' });
      const withoutTerminals = new NativeSpawner({
        ...libc,
        openTerminal: () => {
          throw refusal;
        },
      });
      await expect(withoutTerminals.spawn({ ...sh, io: TERMINAL })).rejects.toMatchObject({
        name: 'SpawnError',
        code,
        message: `/bin/sh could not be started: a terminal needs /dev/ptmx and a devpts at /dev/pts (posix_openpt: ${code})`,
      });
      await withoutTerminals.close();
    },
  );

  test('is cancelled by its signal, before or during the checks', async () => {
    const before = AbortSignal.abort();
    await expect(spawner.spawn(sh, before)).rejects.toMatchObject({ code: 'ECANCELED' });
    const during = new AbortController();
    // A directory that is not cached must be checked, which takes a moment.
    const started = spawner.spawn({ ...sh, cwd: '/usr/lib' }, during.signal);
    during.abort();
    await expect(started).rejects.toMatchObject({ name: 'SpawnError', code: 'ECANCELED' });
    await waitFor('no child to be left', () => childPids().length === 1);
  });
});

test('leaves no descriptor, zombie or process behind after a thousand children', async () => {
  for (let round = 0; round < 20; round++) {
    const batch = Array.from({ length: 50 }, (_, index) =>
      run(spawner, shell(`exit ${index}`, index % 2 === 0 ? INPUT : TERMINAL)),
    );
    const codes = (await Promise.all(batch)).map(({ status }) => status.code);
    expect(codes).toEqual(batch.map((_, index) => index));
  }
  expect(childPids()).toHaveLength(1);
});

test('kills its children on close and starts no more', async () => {
  const own = new NativeSpawner(libc);
  const { exited, child } = record(await own.spawn(shell('sleep 1000')));
  // Its directory must be checked first, and by then the spawner is closed.
  const late = own.spawn({ ...shell('exit 0'), cwd: '/usr' }).catch((error: unknown) => error);
  await own.close();
  expect(await exited).toEqual({ code: null, signal: 9 });
  expect(await late).toMatchObject({ code: 'ECANCELED' });
  await expect(own.spawn(shell('exit 0'))).rejects.toMatchObject({ code: 'ECANCELED' });
  child.release();
});
