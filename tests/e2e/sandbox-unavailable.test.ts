import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { doctorCommand } from '../../src/cli/doctor-command.ts';
import { startServer, type TestServer } from '../../src/testing/index.ts';

const FLAGS = [
  'capabilityDiscoverySandbox',
  'sandboxedFileStreaming',
  'linuxRootWritePreservesDevices',
  'linuxApprovedRootWritePreservesRestrictions',
] as const;

let place: string;
let server: TestServer | null = null;

beforeEach(() => {
  place = mkdtempSync(join(tmpdir(), 'no-sandbox-'));
  mkdirSync(join(place, 'bin'));
  vi.stubEnv('PATH', join(place, 'bin'));
});

afterEach(async () => {
  await server?.close();
  server = null;
  vi.unstubAllEnvs();
  rmSync(place, { recursive: true });
});

function fakeBwrap(script: string): void {
  writeFileSync(join(place, 'bin/bwrap'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
}

/** What doctor says about the sandbox as a whole. */
async function diagnosis(): Promise<string> {
  const { text } = await doctorCommand(['--json'], process.env);
  const checks: { name: string; detail: string }[] = JSON.parse(text).checks;
  return checks.find(({ name }) => name === 'sandbox')!.detail;
}

const sandbox = { type: 'workspaceWrite' } as const;

describe.each<[string, () => void, RegExp]>([
  ['there is no bwrap', () => {}, /install the package bubblewrap/],
  ['bwrap fails', () => fakeBwrap('exit 3'), /it exited with 3/],
  [
    'user namespaces are forbidden',
    () => fakeBwrap('echo "bwrap: Creating new namespace failed: Operation not permitted" >&2; exit 1'),
    /sysctl -w kernel\.unprivileged_userns_clone=1/,
  ],
])('where %s', (_, prepare, cure) => {
  test('requests with a sandbox fail with what doctor says, and do nothing', async () => {
    prepare();
    const words = await diagnosis();
    expect(words).toMatch(cure);
    server = await startServer();
    const client = await server.connect();
    const touched = join(place, 'touched');
    const start = {
      processId: 'p',
      argv: ['/bin/sh', '-c', `echo > ${touched}`],
      cwd: `file://${place}`,
      env: {},
      tty: false,
      sandbox,
    };
    await expect(client.request('process/start', start)).rejects.toMatchObject({ code: -32603, message: words });
    const write = {
      path: `file://${touched}`,
      dataBase64: '',
      sandbox: { ...sandbox, cwd: `file://${place}` },
    };
    await expect(client.request('fs/writeFile', write)).rejects.toMatchObject({
      code: -32603,
      message: `fs sandbox helper failed: ${words}`,
    });
    expect(readdirSync(place)).toEqual(['bin']);
    const { exitCode } = await runPlain(client);
    expect(exitCode).toBe(0);
  });

  test('the server does not announce what takes a sandbox', async () => {
    prepare();
    server = await startServer();
    const client = await server.connect();
    const { capabilities } = await client.call('environment/info', {});
    expect(FLAGS.map((flag) => capabilities[flag])).toEqual([false, false, false, false]);
    expect(capabilities.pty).toBe(true);
  });
});

test('a guess is corrected for those who come later', async () => {
  vi.stubEnv('PATH', '/usr/bin');
  server = await startServer();
  const first = await server.connect({ handshake: false });
  const { environmentInfo } = await first.call('initialize', { clientName: 'first' });
  expect(environmentInfo!.capabilities.sandboxedFileStreaming).toBe(true);
});

test('a bwrap that the guess did not find is announced once it has been asked for', async () => {
  symlinkSync('/usr/bin/bwrap', join(place, 'bin/bwrap'));
  server = await startServer();
  const client = await server.connect();
  const { capabilities } = await client.call('environment/info', {});
  expect(FLAGS.map((flag) => capabilities[flag])).toEqual([true, true, true, true]);
});
