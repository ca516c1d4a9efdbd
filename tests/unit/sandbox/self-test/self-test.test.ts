import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { LOCAL_FILE_SYSTEM } from '../../../../src/files/local/local-file-system.ts';
import { loadLibc } from '../../../../src/native/libc.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import { NodeSpawner } from '../../../../src/process/spawn/node-spawner.ts';
import type { Spawner } from '../../../../src/process/spawn/spawner.ts';
import { createSandbox } from '../../../../src/sandbox/create-sandbox.ts';
import { unenforceable } from '../../../../src/sandbox/errors.ts';
import type { Sandbox } from '../../../../src/sandbox/sandbox.ts';
import type { Check } from '../../../../src/sandbox/self-test/check.ts';
import { FORBIDDEN, FORBIDDEN_ON_WRITABLE_DISK } from '../../../../src/sandbox/self-test/escape-attempts.ts';
import { checkEscapes } from '../../../../src/sandbox/self-test/escape-check.ts';
import { tryFileAccess } from '../../../../src/sandbox/self-test/file-access.ts';
import { SelfTestFixture } from '../../../../src/sandbox/self-test/fixture.ts';
import { checkTerminal, type SelfTest, testSandbox } from '../../../../src/sandbox/self-test/self-test.ts';
import { childPids, openDescriptors } from '../../../support/children.ts';
import { removedAreClosed } from '../linux/sandboxed-programs.ts';

const spawner = new NativeSpawner(loadLibc());
/** The directory for the fixtures of the self-test and for fake bwrap scripts. */
let place: string;

beforeEach(() => {
  place = mkdtempSync(join(tmpdir(), 'self-test-'));
  vi.stubEnv('TMPDIR', join(place, 'tmp'));
  mkdirSync(join(place, 'tmp'));
});

afterEach(() => {
  expect(readdirSync(join(place, 'tmp'))).toEqual([]);
  vi.unstubAllEnvs();
  rmSync(place, { recursive: true });
});

afterAll(async () => {
  await spawner.close();
  expect(childPids()).toEqual([]);
});

const states = (checks: readonly Check[]) =>
  Object.fromEntries(checks.map(({ name, state }) => [name, state]));
const notOk = (checks: readonly Check[]) => checks.filter(({ state }) => state !== 'ok');
const named = (test: SelfTest, name: string) => test.requirements.find((check) => check.name === name);

function fakeBwrap(script: string): { PATH: string } {
  writeFileSync(join(place, 'bwrap'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return { PATH: place };
}

describe('on a machine where sandboxes work', () => {
  test('all checks succeed, no attempt escapes, and nothing is left behind', async () => {
    await testSandbox(spawner, process.env);
    const before = openDescriptors();
    const { requirements, programs, files } = await testSandbox(spawner, process.env);
    expect(notOk(requirements)).toEqual([]);
    expect(requirements.map(({ name }) => name)).toEqual([
      'bwrap',
      'user namespaces',
      'processes',
      'network isolation',
      'system call filter',
      'sandbox',
      'terminals',
    ]);
    expect(requirements[0]!.detail).toMatch(/^\/usr\/bin\/bwrap \(bubblewrap [\d.]+\)$/);
    expect(notOk(programs).filter(({ detail }) => !/: there is none$/.test(detail))).toEqual([]);
    expect(programs).toHaveLength(FORBIDDEN.length + FORBIDDEN_ON_WRITABLE_DISK.length + 1);
    expect(notOk(files)).toEqual([]);
    expect(files).toHaveLength(5);
    await removedAreClosed();
    expect(openDescriptors()).toBe(before);
  });

  test('each attempt is stopped by the expected mechanism', async () => {
    const sandbox = createSandbox(spawner, process.env, { prebuild: true });
    const checks = await checkEscapes(spawner, sandbox, process.execPath);
    await sandbox.close();
    const details = Object.fromEntries(checks.map(({ name, detail }) => [name, detail]));
    expect(details['change a file outside the workspace']).toBe('stopped: EROFS (open)');
    expect(details['write through a hard link']).toBe('stopped: EXDEV (link)');
    expect(details['make .codex/config.toml']).toBe('stopped: EROFS (open)');
    expect(details['read a denied directory']).toBe('stopped: EACCES (open)');
    expect(details['move .git out of the way']).toBe('stopped: EBUSY (rename)');
    expect(details['move the directory above a denied one']).toBe('stopped: EBUSY (rename)');
    expect(details['change settings of the kernel']).toBe('stopped: EROFS (open)');
    expect(details['change settings of the kernel in /sys']).toMatch(/EROFS|also fails without/);
    expect(details['manage control groups']).toMatch(/EROFS|also fails without/);
    expect(details['mount something']).toMatch(/not permitted|permission denied/i);
    expect(details['connect to a port of this machine']).toBe('stopped: EPERM (connect)');
    expect(details['signal a process of the host']).toBe('stopped: ESRCH (kill)');
  });
});

describe('a sandbox without restrictions', () => {
  const open: Pick<Sandbox, 'wrapProgram' | 'files'> = {
    wrapProgram: async (spec) => ({ spec, denialDetector: null, release: null }),
    files: () => ({ fileSystem: LOCAL_FILE_SYSTEM, search: () => Promise.reject(new Error('not here')) }),
  };

  test('is detected by every attempt of a program', async () => {
    const [permitted, ...forbidden] = await checkEscapes(spawner, open, process.execPath);
    expect(permitted).toMatchObject({ state: 'ok' });
    const held = forbidden.filter(({ state }) => state !== 'failed');
    // A machine may have no block devices or control groups.
    const optional = ['open a disk of the host', 'manage control groups'];
    expect(held.filter(({ name }) => !optional.includes(name))).toEqual([]);
    expect(held.every(({ state }) => state === 'untested')).toBe(true);
    expect(forbidden).toContainEqual({
      name: 'change a file outside the workspace',
      state: 'failed',
      detail: 'it succeeded inside a sandbox',
      fix: 'do not rely on sandboxes on this machine, and report it',
    });
  });

  test('is detected by every file operation', async () => {
    const [permitted, ...forbidden] = await tryFileAccess(spawner, open);
    expect(permitted).toMatchObject({ state: 'ok' });
    expect(forbidden.map(({ state }) => state)).toEqual(['failed', 'failed', 'failed', 'failed']);
  });
});

test.runIf(process.getuid?.() === 0)('detects a bwrap that leaves kernel files writable', async () => {
  const args = ['--bind', '/', '/', '--bind', '/proc', '/proc', '--ro-bind', '/proc/sys', '/proc/sys', '--'];
  const careless: Pick<Sandbox, 'wrapProgram'> = {
    wrapProgram: async (spec) => ({
      spec: { ...spec, program: '/usr/bin/bwrap', argv: ['bwrap', ...args, ...spec.argv] },
      denialDetector: null,
      release: null,
    }),
  };
  const checks = await checkEscapes(spawner, careless, process.execPath);
  expect(states(checks)['change settings of the kernel']).toBe('failed');
});

test('a fixture that cannot be created leaves nothing behind', async () => {
  const broken: Spawner = {
    pty: spawner.pty,
    spawn: () => Promise.reject(new Error('no programs today')),
    close: async () => {},
  };
  await expect(SelfTestFixture.open(broken)).rejects.toThrow('no programs today');
});

describe('a sandbox in which nothing works', () => {
  test('does not count as safe', async () => {
    const dead: Pick<Sandbox, 'wrapProgram'> = {
      wrapProgram: async (spec) => ({
        spec: { ...spec, program: '/bin/sh', argv: ['sh', '-c', 'echo no luck >&2; exit 3'] },
        denialDetector: null,
        release: null,
      }),
    };
    const [permitted, first] = await checkEscapes(spawner, dead, process.execPath);
    expect(permitted).toMatchObject({ name: 'write in the workspace', state: 'failed', detail: 'no luck' });
    expect(first).toMatchObject({ state: 'untested', detail: 'not tried: no luck' });
  });

  test('is reported with the reason of the refusal', async () => {
    const refusing = { wrapProgram: () => Promise.reject(unenforceable('bwrap would be writable')) };
    const checks = await checkEscapes(spawner, refusing, process.execPath);
    expect(checks[0]).toMatchObject({ state: 'failed', detail: 'bwrap would be writable' });
    expect(new Set(checks.slice(1).map(({ state }) => state))).toEqual(new Set(['untested']));
  });

  test('is reported by file operations', async () => {
    const dead: Pick<Sandbox, 'files'> = {
      files: () => ({
        fileSystem: { ...LOCAL_FILE_SYSTEM, readFile: () => Promise.reject(new Error('no luck')) },
        search: () => Promise.reject(new Error('not here')),
      }),
    };
    expect(await tryFileAccess(spawner, dead)).toEqual([
      { name: 'read a file in the workspace', state: 'failed', detail: 'no luck', fix: null },
    ]);
  });

  test('has no terminals', async () => {
    const dead: Pick<Sandbox, 'wrapProgram'> = {
      wrapProgram: async (spec) => ({
        spec: { ...spec, io: { kind: 'pipe', stdin: 'closed' } },
        denialDetector: null,
        release: null,
      }),
    };
    expect(await checkTerminal(spawner, dead)).toMatchObject({
      state: 'missing',
      detail: 'the program exited with 1',
    });
    const without: Spawner = new NodeSpawner('terminals are elsewhere');
    expect(await checkTerminal(without, dead)).toMatchObject({
      state: 'missing',
      detail: 'terminals are elsewhere',
    });
  });
});

describe('on a machine where sandboxes do not work', () => {
  test('reports how to install a missing bwrap', async () => {
    const result = await testSandbox(spawner, { PATH: '/nonexistent' });
    expect(states(result.requirements)).toEqual({
      bwrap: 'failed',
      'user namespaces': 'untested',
      processes: 'untested',
      'network isolation': 'untested',
      'system call filter': 'untested',
      sandbox: 'failed',
    });
    const { detail, fix } = named(result, 'bwrap')!;
    expect(detail).toBe("bwrap was not found on this server's PATH (/nonexistent)");
    expect(fix).toContain('apt-get install bubblewrap');
    expect(named(result, 'sandbox')!.detail).toBe(
      `programs cannot be sandboxed on this machine: ${detail}; ${fix}`,
    );
    expect([result.programs, result.files]).toEqual([[], []]);
  });

  test.each([
    [
      'user namespaces',
      '*--unshare-user*',
      'bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces.',
      'sysctl -w kernel.unprivileged_userns_clone=1',
    ],
    [
      'processes',
      '*--proc*',
      "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
      '--security-opt systempaths=unconfined',
    ],
    [
      'network isolation',
      '*--unshare-net*',
      'bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted',
      'sysctl -w kernel.apparmor_restrict_unprivileged_userns=0',
    ],
    [
      'system call filter',
      '*--seccomp*',
      'bwrap: prctl(PR_SET_SECCOMP): Invalid argument',
      'CONFIG_SECCOMP_FILTER',
    ],
  ])('reports that %s are missing, and the fix', async (name, pattern, message, fix) => {
    const env = fakeBwrap(
      `case "$*" in ${pattern}) echo "${message}" >&2; exit 1;; esac; exec /usr/bin/bwrap "$@"`,
    );
    const result = await testSandbox(spawner, env);
    const order = result.requirements.map((check) => check.name);
    const at = order.indexOf(name);
    const found = result.requirements.map(({ state }) => state);
    expect(found).toEqual(
      order.map((_, index) =>
        index < at ? 'ok' : index === at || index === order.length - 1 ? 'failed' : 'untested',
      ),
    );
    expect(named(result, name)).toMatchObject({ detail: message, fix: expect.stringContaining(fix) });
    expect(named(result, 'sandbox')!.detail).toContain(message);
    expect(named(result, 'sandbox')!.detail).toContain(named(result, name)!.fix);
  });

  test('reports the exit code of a bwrap that fails without output', async () => {
    const result = await testSandbox(spawner, fakeBwrap('exit 3'));
    expect(named(result, 'user namespaces')).toMatchObject({ detail: 'bwrap exited with 3', fix: null });
  });

  test('reports a spawner that cannot pass descriptors', async () => {
    const result = await testSandbox(new NodeSpawner('switched off'), process.env);
    expect(result.requirements).toEqual([
      { name: 'sandbox', state: 'failed', detail: expect.stringContaining('nativeSpawn'), fix: null },
    ]);
  });
});
