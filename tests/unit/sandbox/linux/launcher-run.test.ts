import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { nativePathOfBytes } from '../../../../src/files/native-path.ts';
import { loadLibc } from '../../../../src/native/libc.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import {
  idleImage,
  type Launch,
  LaunchReport,
  launcherImage,
} from '../../../../src/sandbox/linux/launcher.ts';
import { seccompFilter } from '../../../../src/sandbox/linux/seccomp.ts';
import { NO_INPUT, type Outcome, record, run, type TERMINAL } from '../../../support/children.ts';

describe('the bytes', () => {
  const CODE_AT = 176;

  test.each([
    // mov edi, 0; mov eax, 231; syscall
    ['x64', 62, 'bf00000000b8e70000000f05'],
    // mov w0, #0; movk w0, #0, lsl #16; mov w8, #94; movk w8, #0, lsl #16; svc #0
    ['arm64', 183, '000080520000a072c80b80520800a072010000d4'],
  ] as const)('of a launcher that only exits on %s', (architecture, machine, code) => {
    const image = idleImage(architecture);
    expect(image.subarray(CODE_AT).toString('hex')).toBe(code);
    expect(image.subarray(0, 7).toString('latin1')).toBe('\x7fELF\x02\x01\x01');
    expect(image.readUInt16LE(18)).toBe(machine);
  });
});

describe.runIf(process.arch === 'x64')('a launcher that runs', () => {
  const spawner = new NativeSpawner(loadLibc());
  let folder: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'launcher-'));
  });

  afterAll(async () => {
    await spawner.close();
    rmSync(folder, { recursive: true });
  });

  const start = (
    launch: Partial<Launch>,
    io: typeof NO_INPUT | typeof TERMINAL = NO_INPUT,
  ): Promise<Outcome> => {
    const image = launcherImage(
      {
        path: '/usr/bin/env',
        argv: ['env'],
        env: {},
        descriptor: 3,
        devices: [],
        stdin: null,
        session: null,
        filter: null,
        listeners: null,
        mounts: [],
        certain: false,
        cwd: null,
        report: null,
        ...launch,
      },
      'x64',
    );
    return run(spawner, {
      program: '/proc/self/fd/3',
      argv: ['launcher'],
      cwd: '/',
      env: { NOT: 'passed on' },
      io,
      inherited: [image],
      wrapper: 'becomes',
    });
  };

  const file = (name: string, content: string, mode: number): string => {
    const path = join(folder, name);
    writeFileSync(path, content);
    chmodSync(path, mode);
    return path;
  };

  test('gives the program its exact environment and arguments', async () => {
    const env = { A: 'b c', '': 'nameless', 'K=X': 'v', Ü: 'ä' };
    expect((await start({ env })).stdout).toBe('A=b c\n=nameless\nK=X=v\nÜ=ä\n');
    const argv = ['', '/proc/self/cmdline', ''];
    expect((await start({ path: '/bin/cat', argv })).stdout).toBe('\0/proc/self/cmdline\0\0');
  });

  test('leaks no descriptor to the program', async () => {
    const { stdout } = await start({ path: '/bin/ls', argv: ['ls', '-l', '/proc/self/fd'] });
    expect(stdout.match(/\d+ -> \S+/g)).toHaveLength(4);
    expect(stdout).not.toContain('memfd');
  });

  test.each([
    ['all is as it should be', '/', LaunchReport.complete, 'said\n', 0],
    ['something is not there', '/no/such/place', LaunchReport.refused, '', 127],
  ])(
    'reports when %s, through a descriptor that the program does not get',
    async (_, place, report, said, code) => {
      const image = launcherImage(
        {
          path: '/bin/sh',
          argv: ['sh', '-c', 'echo said; { echo no >&4; } 2>/dev/null; exit 0'],
          env: {},
          descriptor: 3,
          devices: [],
          stdin: null,
          session: null,
          filter: null,
          listeners: null,
          mounts: [{ path: nativePathOfBytes(place), file: null }],
          certain: true,
          cwd: null,
          report: 4,
        },
        'x64',
      );
      const spec = {
        program: '/proc/self/fd/3',
        argv: ['launcher'],
        cwd: '/',
        env: {},
        io: NO_INPUT,
        inherited: [image, 'report'] as const,
        wrapper: 'becomes' as const,
      };
      const transcript = record(await spawner.spawn(spec));
      expect(await transcript.child.report).toBe(report);
      const [status] = await Promise.all([transcript.exited, transcript.ended]);
      transcript.child.release();
      expect([transcript.text('stdout'), status.code]).toEqual([said, code]);
    },
  );

  test('starts the program in a directory, or reports that it cannot', async () => {
    const path = '/bin/pwd';
    const argv = ['pwd'];
    expect((await start({ path, argv, cwd: nativePathOfBytes('/usr') })).stdout).toBe('/usr\n');
    expect(await start({ path, argv, cwd: nativePathOfBytes('/no/such') })).toMatchObject({
      stdout: '',
      stderr: 'exec-server: the directory /no/such cannot be entered inside the sandbox\n',
      status: { code: 1 },
    });
  });

  test('accepts arguments as long as the system does', async () => {
    const argv = ['sh', '-c', 'printf %s "$1$2" | wc -c', 'sh', 'x'.repeat(100_000), 'ü'.repeat(50_000)];
    expect((await start({ path: '/bin/sh', argv })).stdout).toBe('200000\n');
    const refused = await start({ path: '/bin/true', argv: ['true', 'x'.repeat(200_000)] });
    expect(refused).toMatchObject({ status: { code: 127 } });
    expect(refused.stderr).toContain('too long');
  });

  test.each([
    ['a missing file', () => join(folder, 'nothing'), 127, 'does not exist'],
    ['a missing interpreter', () => file('lost', '#!/no/such/interpreter\n', 0o755), 127, 'does not exist'],
    ['a file that is not executable', () => file('plain', 'text', 0o644), 126, 'permission denied'],
    ['a file without a format', () => file('formless', 'text', 0o755), 126, 'not a valid executable'],
    ['a file as a directory', () => join(file('leaf', '', 0o644), 'x'), 127, 'refused'],
  ])('reports the problem with %s', async (_, make, code, message) => {
    const path = make();
    const { stdout, stderr, status } = await start({ path });
    expect({ stdout, status }).toEqual({ stdout: '', status: { code, signal: null } });
    expect(stderr).toMatch(/^exec-server: cannot execute [^\n]* inside the sandbox: [^\n]*\n$/);
    expect(stderr).toContain(path);
    expect(stderr).toContain(message);
  });

  test('applies the filter and no_new_privs to the program', async () => {
    const path = '/bin/grep';
    const argv = ['grep', '-E', 'NoNewPrivs|Seccomp:', '/proc/self/status'];
    const before = await start({ path, argv });
    expect(before.stdout).toBe('NoNewPrivs:\t0\nSeccomp:\t0\n');
    const after = await start({ path, argv, filter: seccompFilter('restricted', 'x64') });
    expect(after.stdout).toBe('NoNewPrivs:\t1\nSeccomp:\t2\n');
  });

  test('does not run the program when the filter is refused', async () => {
    const filter = Buffer.alloc(8, 0xff);
    const { stdout, stderr, status } = await start({ env: { A: '1' }, filter });
    expect({ stdout, stderr, status }).toEqual({
      stdout: '',
      stderr: 'exec-server: the system call filter of the sandbox was refused\n',
      status: { code: 127, signal: null },
    });
  });

  test('can only exit', async () => {
    const spec = {
      program: '/proc/self/fd/3',
      argv: ['x'],
      cwd: '/',
      env: {},
      io: NO_INPUT,
      wrapper: 'becomes',
    } as const;
    expect(await run(spawner, { ...spec, inherited: [idleImage('x64')] })).toMatchObject({
      status: { code: 0 },
    });
  });
});
