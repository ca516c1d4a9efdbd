import { hostname } from 'node:os';
import { afterEach, expect, test, vi } from 'vitest';
import { METHODS } from '../../../src/protocol/registry.ts';
import { DEFAULT_CONFIG } from '../../../src/server/config/config.ts';
import { describeEnvironment, environmentDescriber } from '../../../src/server/environment-info.ts';
import { connectInMemory } from '../../../src/testing/index.ts';

const EVERYTHING = { terminals: true, sandbox: true, inProcess: false };

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

test('is described again only when the facilities have changed', () => {
  const describe = environmentDescriber(DEFAULT_CONFIG);
  const first = describe({ ...EVERYTHING });
  expect(describe({ ...EVERYTHING })).toBe(first);
  const without = describe({ ...EVERYTHING, terminals: false });
  expect(without.capabilities).toMatchObject({ pty: false });
  expect(describe({ ...EVERYTHING })).toEqual(first);
});

test.each([
  ['/home/env', { shell: '/bin/bash', homedir: '/home/me' }, 'file:///home/env'],
  ['', { shell: '/bin/bash', homedir: '/home/me' }, 'file:///home/me'],
  ['', null, 'file:///'],
])('with HOME=%j and the passwd entry %j the home directory is %s', (home, entry, uri) => {
  vi.stubEnv('HOME', home);
  expect(describeEnvironment(DEFAULT_CONFIG, EVERYTHING, () => entry).userHomeDir).toBe(uri);
});

test.each([
  ['/var/tmp/é', ['file:///var/tmp/%C3%A9'], 'file:///var/tmp/%C3%A9'],
  ['', [], 'file:///tmp'],
])('reports TMPDIR=%j as the temporary directories %j', (value, directories, used) => {
  vi.stubEnv('TMPDIR', value);
  expect(describeEnvironment(DEFAULT_CONFIG, EVERYTHING)).toMatchObject({
    temporaryDirectories: directories,
    tempDir: used,
  });
});

test('reports no cwd when the working directory has been removed', () => {
  vi.stubEnv('TMPDIR', 'relative');
  vi.spyOn(process, 'cwd').mockImplementation(() => {
    throw new Error('ENOENT: no such file or directory, uv_cwd');
  });
  const info = describeEnvironment(DEFAULT_CONFIG, EVERYTHING);
  expect(info).toMatchObject({ cwd: null, temporaryDirectories: [], tempDir: 'file:///tmp' });
  expect(METHODS['environment/info'].result.parse(info)).toEqual(info);
});

test('matches its schema and reports every capability of the methods', () => {
  const info = describeEnvironment({ ...DEFAULT_CONFIG, maxMessageBytes: 12_345 }, EVERYTHING);
  expect(METHODS['environment/info'].result.parse(info)).toEqual(info);
  expect(info.limits).toMatchObject({ maxMessageBytes: 12_345, allowDirectExec: true });
  expect(info.providerId).toMatch(/^sha256:[0-9a-f]{64}$/);
  expect(info.providerId).not.toContain(hostname());
  for (const { capability } of Object.values(METHODS)) {
    if (capability !== undefined) expect(info.capabilities[capability]).toBe(true);
  }
});

test('reports the limits of the settings to clients', async () => {
  const limits = {
    shutdownGracePeriodMs: 12,
    maxProcessesPerConnection: 34,
    retainedOutputBytesPerProcess: 56_789,
    allowDirectExec: false,
    allowPreparedExec: false,
    detachedSessionTtlMs: 78_000,
    maxDetachedSessionTtlMs: 79_000,
    maxMessageBytes: 9_876_543,
  };
  for (const [key, value] of Object.entries(limits)) expect(DEFAULT_CONFIG).not.toHaveProperty(key, value);
  const { client, close } = connectInMemory(limits);
  await client.handshake();
  expect((await client.call('environment/info', {})).limits).toEqual(limits);
  await close();
});

test('reports no terminal capabilities without terminals', () => {
  const { capabilities } = describeEnvironment(DEFAULT_CONFIG, { ...EVERYTHING, terminals: false });
  expect([capabilities.pty, capabilities.processResize, capabilities.processWait]).toEqual([
    false,
    false,
    true,
  ]);
});

test.each([true, false])('reports the sandbox capabilities when sandboxes work: %s', (sandbox) => {
  const { capabilities } = describeEnvironment(DEFAULT_CONFIG, { ...EVERYTHING, sandbox });
  expect(capabilities).toMatchObject({
    capabilityDiscoverySandbox: sandbox,
    sandboxedFileStreaming: sandbox,
    linuxRootWritePreservesDevices: sandbox,
    linuxApprovedRootWritePreservesRestrictions: sandbox,
    pty: true,
  });
});
