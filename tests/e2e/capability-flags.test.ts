import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { StartParams } from '../../src/client/index.ts';
import type { SandboxRequest } from '../../src/protocol/sandbox.ts';
import { startServer, type TestClient, type TestServer } from '../../src/testing/index.ts';
import { at, managed, ROOT_READ, uri } from '../support/escape-fixture.ts';
import { plain } from '../support/programs.ts';
import { webServer } from '../support/web-servers.ts';

let folder: string;
let server: TestServer;
let client: TestClient;
let flags: Readonly<Record<string, unknown>>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'capability-flags-'));
  writeFileSync(join(folder, 'file'), 'content');
  vi.stubEnv('FLAG_VARIABLE', 'from the executor');
  vi.stubEnv('CODEX_HOME', folder);
  server = await startServer();
  client = await server.connect();
  flags = (await client.call('environment/info', {})).capabilities;
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await server.close();
  rmSync(folder, { recursive: true });
});

const path = (name: string) => uri(join(folder, name));

/** The output of a shell script. */
async function printed(processId: string, script: string, more: Partial<StartParams> = {}): Promise<string> {
  const env = { PATH: '/usr/bin:/bin', HOME: folder };
  await client.call('process/start', {
    ...plain,
    processId,
    argv: ['/bin/bash', '-lc', script],
    env,
    ...more,
  } as StartParams);
  return (await client.closedProcess(processId)).text();
}

const networkProxy = (more: object) => ({
  proxy: {
    enabled: true,
    enableSocks5: false,
    enableSocks5Udp: false,
    allowUpstreamProxy: false,
    dangerouslyAllowAllUnixSockets: false,
    mode: 'full' as const,
    allowLocalBinding: false,
    ...more,
  },
});

/** A sandbox with a writable root, except for some files of the test. */
const writableRoot = (sandboxOverride?: 'escalatedSandboxWithRestrictions') =>
  managed(
    [
      { path: { type: 'special', value: { kind: 'root' } }, access: 'write' },
      at(join(folder, 'file'), 'read'),
    ],
    sandboxOverride && { sandboxOverride },
  );

/** A check of what each flag of the reference promises on Linux. */
const TRUE: Readonly<Record<string, () => Promise<void>>> = {
  credentialMasking: async () => {
    const masked = {
      networkProxy: networkProxy({ credentialMasking: true }),
      env: { HOME: folder, GH_TOKEN: 'gho_1' },
    };
    expect(await printed('masked', 'echo $GH_TOKEN', masked)).toMatch(/^gho_masked[A-Za-z0-9]{30}\n$/);
  },
  credentialMaskingCustomProviders: async () => {
    const key = { env: ['KEY'], patterns: ['key-[0-9]{20}'], url_prefixes: ['https://key.test'] };
    const settings = { credentialMasking: true, credentialProviders: { key } };
    const masked = {
      networkProxy: networkProxy(settings),
      env: { HOME: folder, KEY: `key-${'1'.repeat(20)}` },
    };
    const output = await printed('custom', 'echo $KEY', masked);
    expect(output).toMatch(/^key-[0-9]{20}\n$/);
    expect(output).not.toContain('1'.repeat(20));
  },
  networkProxyLaunch: async () => {
    const launch = { networkProxy: networkProxy({}) };
    expect(await printed('launch', 'echo $HTTP_PROXY', launch)).toMatch(/^http:.*@127\.0\.0\.1:\d+\n$/);
  },
  networkProxyReviewDomains: async () => {
    const launch = networkProxy({ domains: { '127.0.0.1': 'allow' }, reviewDomains: ['127.0.0.1'] });
    const answer = await printed('review', 'curl -s http://127.0.0.1:9/', { networkProxy: launch });
    expect(JSON.parse(answer)).toMatchObject({ status: 'blocked', reason: 'not_allowed' });
  },
  capabilityDiscoverySandbox: async () => {
    writeFileSync(join(folder, 'SKILL.md'), 'a skill');
    const found = async (sandbox: SandboxRequest | null) => {
      const roots = [{ id: 'r', path: uri(folder), sandbox }];
      return JSON.stringify(await client.request('capabilityRoots/discoverV1', { roots }));
    };
    expect(await found(managed([ROOT_READ]))).toContain('a skill');
    expect(await found(managed([ROOT_READ, at(folder, 'deny')]))).not.toContain('a skill');
  },
  fsWatchMissing: async () => {
    const watch = { watchId: 1, missing: [path('missing')], present: uri(folder) };
    expect(await client.call('fs/watchMissing', watch)).toEqual({ watching: true });
    writeFileSync(join(folder, 'missing'), '');
    await client.waitFor(({ method }) => method === 'fs/missingChanged');
  },
  capabilityDiscoveryV2: async () => {
    await client.call('capabilities/discoverV2', { cwd: uri(folder) });
  },
  environmentConfigRead: async () => {
    const params = { cwd: uri(folder), configPaths: [['model']], requirementsPaths: [] };
    expect(await client.call('environmentConfig/read', params)).toHaveProperty('config.layers');
  },
  httpHeaderEnvVars: async () => {
    const web = await webServer(({ headers }, response) => response.end(headers['x-test']));
    const headers = [{ name: 'x-test', value: '', valueEnvVar: 'FLAG_VARIABLE' }];
    const { bodyBase64 } = await client.call('http/request', {
      method: 'GET',
      url: web.url,
      requestId: 'r',
      headers,
    });
    await web.close();
    expect(Buffer.from(bodyBase64, 'base64').toString()).toBe('from the executor');
  },
  sandboxedFileStreaming: async () => {
    const open = (handleId: string, sandbox: unknown) =>
      client.request('fs/open', { handleId, path: path('file'), sandbox });
    await open('h', managed([ROOT_READ, at(folder, 'read')]));
    const block = await client.call('fs/readBlock', { handleId: 'h', offset: 0, len: 10 });
    expect(Buffer.from(block.chunk, 'base64').toString()).toBe('content');
    await client.call('fs/close', { handleId: 'h' });
    await expect(open('denied', managed([ROOT_READ, at(folder, 'deny')]))).rejects.toThrow();
  },
  fileWriteStreaming: async () => {
    await client.call('fs/open', { handleId: 'w', path: path('written'), mode: 'replace' });
    const chunk = Buffer.from('streamed').toString('base64');
    await client.call('fs/writeBlock', { handleId: 'w', offset: 0, chunk });
    await client.call('fs/close', { handleId: 'w' });
    expect(readFileSync(join(folder, 'written'), 'utf8')).toBe('streamed');
  },
  shellSnapshotV2: async () => {
    writeFileSync(join(folder, '.bash_profile'), 'greeting() { echo hello; }\n');
    const shellSnapshot = { scopeId: 's', shell: { name: 'bash', path: '/bin/bash' } };
    expect(await printed('first', 'greeting', { shellSnapshot })).toBe('hello\n');
    // The state is cached: another login shell would not have the function.
    writeFileSync(join(folder, '.bash_profile'), '');
    expect(await printed('second', 'greeting', { shellSnapshot })).toBe('hello\n');
  },
  linuxRootWritePreservesDevices: async () => {
    const script = `echo x > /dev/null && ls /dev; echo x >> ${folder}/file`;
    const output = await printed('devices', script, { sandbox: writableRoot() });
    expect(output).toContain('null\n');
    expect(output).not.toMatch(/^(?:mem|kmsg|sda|vda|loop0)$/m);
  },
  linuxApprovedRootWritePreservesRestrictions: async () => {
    const script = `exec 2>&1; echo x >> ${folder}/file; echo new > ${folder}/new; cat ${folder}/file ${folder}/new`;
    const sandbox = writableRoot('escalatedSandboxWithRestrictions');
    expect(await printed('approved', script, { sandbox })).toMatch(/Read-only[\s\S]*contentnew\n/);
  },
};

describe('the flags that the reference sets on Linux', () => {
  test.each(Object.keys(TRUE))('%s is set and works', async (flag) => {
    expect(flags[flag]).toBe(true);
    await TRUE[flag]!();
  });
});

test('windowsMxc is not set, as on the reference', () => {
  expect(flags.windowsMxc ?? false).toBe(false);
});
