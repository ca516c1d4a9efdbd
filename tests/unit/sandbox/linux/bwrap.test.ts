import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { loadLibc } from '../../../../src/native/libc.ts';
import { NativeSpawner } from '../../../../src/process/spawn/native-spawner.ts';
import { SandboxError } from '../../../../src/sandbox/errors.ts';
import { Bwrap } from '../../../../src/sandbox/linux/bwrap.ts';
import { PROBE_RETRY_MS } from '../../../../src/sandbox/linux/limits.ts';
import { childPids } from '../../../support/children.ts';

const spawner = new NativeSpawner(loadLibc());
const REAL = realpathSync('/usr/bin/bwrap');
const architecture = process.arch === 'arm64' ? 'arm64' : 'x64';
// Only its owner can replace any directory in this path. The temporary directory is sticky.
const folder = mkdtempSync(join(tmpdir(), 'bwrap-'));
let count = 0;
let directory: string;

beforeEach(() => {
  directory = join(folder, String(count++));
  mkdirSync(directory);
});

afterAll(async () => {
  await spawner.close();
  rmSync(folder, { recursive: true });
  expect(childPids()).toEqual([]);
});

const bwrap = (searchPath: string) => new Bwrap(spawner, searchPath, architecture);

function fake(text: string): void {
  writeFileSync(join(directory, 'bwrap'), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
}

describe('finding bwrap', () => {
  test('finds a working bwrap on the PATH by its real path', async () => {
    expect(await bwrap('/no/such/directory:/usr/bin').path()).toBe(REAL);
    symlinkSync(REAL, join(directory, 'bwrap'));
    expect(await bwrap(directory).path()).toBe(REAL);
  });

  test('looks it up once for concurrent calls', async () => {
    const spawn = vi.spyOn(spawner, 'spawn');
    const found = bwrap('/usr/bin');
    await Promise.all([found.path(), found.path()]);
    await found.path();
    expect(spawn).toHaveBeenCalledTimes(1);
    spawn.mockRestore();
  });

  test('uses a configured path only, and rejects one that is not executable', async () => {
    const configured = join(directory, 'other-name');
    symlinkSync(REAL, configured);
    expect(await new Bwrap(spawner, '', architecture, configured).path()).toBe(REAL);
    await expect(new Bwrap(spawner, '/usr/bin', architecture, '/nowhere').path()).rejects.toThrow(
      '/nowhere (bwrapPath) is not an executable file; correct --bwrap-path, or leave it out to search the PATH',
    );
  });

  test('ignores relative directories', async () => {
    await expect(bwrap(':.:bin:usr/bin').path()).rejects.toThrow(
      /not found on this server's PATH.*install the package bubblewrap/,
    );
  });

  test.each([
    ['a file that others can write to', () => chmodSync(join(directory, 'bwrap'), 0o777)],
    ['a directory that others can write to', () => chmodSync(directory, 0o777)],
    ['a directory that a group can write to', () => chmodSync(directory, 0o775)],
  ])('rejects %s', async (_, weaken) => {
    copyFileSync(REAL, join(directory, 'bwrap'));
    weaken();
    await expect(bwrap(directory).path()).rejects.toThrow(/can be changed by other users/);
    expect(await bwrap(`${directory}:/usr/bin`).path()).toBe(REAL);
  });

  test.each([
    ['a directory', () => mkdirSync(join(directory, 'bwrap'))],
    ['a file that cannot be executed', () => writeFileSync(join(directory, 'bwrap'), '', { mode: 0o644 })],
    ['a dangling link', () => symlinkSync('nowhere', join(directory, 'bwrap'))],
  ])('rejects %s', async (_, make) => {
    make();
    await expect(bwrap(directory).path()).rejects.toThrow(/not found/);
  });
});

describe('a bwrap that does not work', () => {
  test.each([
    [
      'bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces.',
      'kernel.unprivileged_userns_clone=1',
    ],
    ['bwrap: Creating new namespace failed: Operation not permitted', 'user.max_user_namespaces'],
    ['bwrap: setting up uid map: Permission denied', 'kernel.apparmor_restrict_unprivileged_userns=0'],
    ["bwrap: Can't mount proc on /newroot/proc: Operation not permitted", 'unmasked /proc'],
    ['bwrap: prctl(PR_SET_SECCOMP): Invalid argument', 'CONFIG_SECCOMP_FILTER'],
    ['bwrap: execvp /proc/self/fd/3: Permission denied', 'vm.memfd_noexec'],
    ['bwrap: something else', 'something else'],
  ])('reports the reason and the fix: %s', async (message, fix) => {
    fake(`echo "${message}" >&2; exit 1`);
    const error = await bwrap(directory)
      .path()
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(SandboxError);
    expect(error).toMatchObject({ kind: 'unenforceable', message: expect.stringContaining(message) });
    expect(error).toMatchObject({ message: expect.stringContaining(fix) });
  });

  test('is rejected without output, and its output is truncated', async () => {
    fake('exit 3');
    await expect(bwrap(directory).path()).rejects.toThrow('it exited with 3');
    fake('yes | head -c 1000000 >&2; exit 1');
    const error = (await bwrap(directory)
      .path()
      .catch((reason: unknown) => reason)) as Error;
    expect(error.message.length).toBeLessThan(3000);
  });

  test('counts as not working after it was not found', async () => {
    const missing = bwrap('/no/such/directory');
    expect(missing.works).toBe(null);
    await expect(missing.trustedPath()).rejects.toThrow('not found');
    expect(missing.works).toBe(false);
  });

  test('counts as working when a sandbox was built while the probe failed', async () => {
    const gate = join(directory, 'gate');
    fake(`until [ -e ${gate} ]; do sleep 0.01; done; exit 1`);
    const slow = bwrap(directory);
    const trial = slow.path();
    const failed = expect(trial).rejects.toThrow('does not work here');
    await slow.trustedPath();
    slow.markWorking();
    writeFileSync(gate, '');
    await failed;
    expect(slow.works).toBe(true);
    expect(await slow.path()).toBe(join(realpathSync(directory), 'bwrap'));
  });

  test('is probed again only after PROBE_RETRY_MS', async () => {
    fake('exit 3');
    const now = vi.spyOn(performance, 'now');
    const start = performance.now();
    now.mockReturnValue(start);
    const broken = bwrap(directory);
    await expect(broken.path()).rejects.toThrow();
    rmSync(join(directory, 'bwrap'));
    symlinkSync(REAL, join(directory, 'bwrap'));
    await expect(broken.path()).rejects.toThrow();
    now.mockReturnValue(start + PROBE_RETRY_MS + 1);
    expect(await broken.path()).toBe(REAL);
    now.mockRestore();
  });
});
