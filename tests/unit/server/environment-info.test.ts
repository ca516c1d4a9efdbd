import { existsSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { loginShell } from '../../../src/process/login-shell.ts';
import { METHODS } from '../../../src/protocol/registry.ts';
import { DEFAULT_CONFIG } from '../../../src/server/config/config.ts';
import { describeEnvironment } from '../../../src/server/environment-info.ts';

vi.mock('node:os', async (original) => ({
  ...(await original<typeof import('node:os')>()),
  userInfo: vi.fn(),
}));
vi.mock('node:fs', async (original) => ({
  ...(await original<typeof import('node:fs')>()),
  existsSync: vi.fn(),
}));

const EVERYTHING = { terminals: true, sandbox: true };

/** Makes this machine one with the given login shell and the given shells. */
function machine(shell: string | null, installed: readonly string[]): void {
  vi.mocked(userInfo).mockImplementation((() => {
    if (shell === null) throw new Error('uv_os_get_passwd returned ENOENT');
    return { shell, homedir: '/home/me', username: 'me', uid: 1, gid: 1 };
  }) as unknown as typeof userInfo);
  vi.mocked(existsSync).mockImplementation((path) => installed.includes(String(path)));
}

beforeEach(() => {
  machine('/bin/bash', ['/bin/bash']);
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

test.each([
  ['/bin/bash', ['/bin/bash', '/bin/sh'], { name: 'bash', path: '/bin/bash' }],
  ['/usr/bin/zsh', ['/usr/bin/zsh', '/bin/bash'], { name: 'zsh', path: '/usr/bin/zsh' }],
  ['/usr/bin/fish', ['/usr/bin/fish', '/bin/bash'], { name: 'bash', path: '/bin/bash' }],
  ['/gone/zsh', ['/bin/sh'], { name: 'sh', path: '/bin/sh' }],
  ['', ['/usr/bin/bash'], { name: 'bash', path: '/usr/bin/bash' }],
  [null, ['/bin/zsh', '/bin/sh'], { name: 'zsh', path: '/bin/zsh' }],
  [null, [], { name: 'sh', path: '/bin/sh' }],
])('a user with the shell %s on a machine with %j gets %j', (shell, installed, expected) => {
  vi.stubEnv('SHELL', '/bin/elsewhere');
  machine(shell, installed);
  expect(loginShell()).toEqual(expected);
});

test.each([
  ['/home/env', '/bin/bash', 'file:///home/env'],
  ['', '/bin/bash', 'file:///home/me'],
  ['', null, 'file:///'],
])('with HOME=%j the home of a user with the shell %s is %s', (home, shell, uri) => {
  vi.stubEnv('HOME', home);
  machine(shell, []);
  expect(describeEnvironment(DEFAULT_CONFIG, EVERYTHING).userHomeDir).toBe(uri);
});

test.each([
  ['/var/tmp/é', ['file:///var/tmp/%C3%A9'], 'file:///var/tmp/%C3%A9'],
  ['', [], 'file:///tmp'],
])('TMPDIR=%j gives the temporary directories %j', (value, directories, used) => {
  vi.stubEnv('TMPDIR', value);
  expect(describeEnvironment(DEFAULT_CONFIG, EVERYTHING)).toMatchObject({
    temporaryDirectories: directories,
    tempDir: used,
  });
});

test('a server whose working directory was removed tells none', () => {
  vi.stubEnv('TMPDIR', 'relative');
  vi.spyOn(process, 'cwd').mockImplementation(() => {
    throw new Error('ENOENT: no such file or directory, uv_cwd');
  });
  const info = describeEnvironment(DEFAULT_CONFIG, EVERYTHING);
  expect(info).toMatchObject({ cwd: null, temporaryDirectories: [], tempDir: 'file:///tmp' });
  expect(METHODS['environment/info'].result.parse(info)).toEqual(info);
});

test('the description fits its schema and names what the server can do', () => {
  const info = describeEnvironment({ ...DEFAULT_CONFIG, maxMessageBytes: 12_345 }, EVERYTHING);
  expect(METHODS['environment/info'].result.parse(info)).toEqual(info);
  expect(info.limits).toMatchObject({ maxMessageBytes: 12_345, allowDirectExec: true });
  expect(info.providerId).toMatch(/^sha256:[0-9a-f]{64}$/);
  expect(info.providerId).not.toContain(hostname());
  for (const { capability } of Object.values(METHODS)) {
    if (capability !== undefined) expect(info.capabilities[capability]).toBe(true);
  }
});

test('a server without terminals does not claim them', () => {
  const { capabilities } = describeEnvironment(DEFAULT_CONFIG, { terminals: false, sandbox: true });
  expect([capabilities.pty, capabilities.processResize, capabilities.processWait]).toEqual([
    false,
    false,
    true,
  ]);
});

test.each([true, false])('what takes a sandbox is announced where there is one: %s', (sandbox) => {
  const { capabilities } = describeEnvironment(DEFAULT_CONFIG, { terminals: true, sandbox });
  expect(capabilities).toMatchObject({
    capabilityDiscoverySandbox: sandbox,
    sandboxedFileStreaming: sandbox,
    linuxRootWritePreservesDevices: sandbox,
    linuxApprovedRootWritePreservesRestrictions: sandbox,
    pty: true,
  });
});
