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

/** The message of the `sandbox` check of doctor. */
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
])('where %s', (_, prepare, fix) => {
  test('requests with a sandbox fail with the message of doctor and have no effect', async () => {
    prepare();
    const words = await diagnosis();
    expect(words).toMatch(fix);
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
    await expect(client.request('process/start', start)).rejects.toMatchObject({
      code: -32603,
      message: words,
    });
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
    await client.call('process/start', { ...start, sandbox: null });
    expect((await client.closedProcess('p')).exitCode).toBe(0);
    expect(readdirSync(place)).toEqual(['bin', 'touched']);
  });

  test('the server does not announce features that need a sandbox', async () => {
    prepare();
    server = await startServer();
    const client = await server.connect();
    const { capabilities } = await client.call('environment/info', {});
    expect(FLAGS.map((flag) => capabilities[flag])).toEqual([false, false, false, false]);
    expect(capabilities.pty).toBe(true);
  });
});

describe('the flags of initialize', () => {
  /** The flags as a new client gets them with its session. */
  async function reportedFlags(): Promise<(boolean | undefined)[]> {
    const client = await server!.connect({ handshake: false });
    const { environmentInfo } = await client.call('initialize', { clientName: 'test' });
    return FLAGS.map((flag) => environmentInfo!.capabilities[flag]);
  }

  test('are true immediately if bwrap is installed', async () => {
    vi.stubEnv('PATH', '/usr/bin');
    server = await startServer();
    expect(await reportedFlags()).toEqual([true, true, true, true]);
  });

  test('are a guess that environment/info corrects', async () => {
    symlinkSync('/usr/bin/bwrap', join(place, 'bin/bwrap'));
    server = await startServer();
    expect(await reportedFlags()).toEqual([false, false, false, false]);
    const client = await server.connect();
    await client.call('environment/info', {});
    expect(await reportedFlags()).toEqual([true, true, true, true]);
  });

  test('are false without native spawning', async () => {
    vi.stubEnv('PATH', '/usr/bin');
    server = await startServer({ nativeSpawn: false });
    expect(await reportedFlags()).toEqual([false, false, false, false]);
    const client = await server.connect();
    await client.call('environment/info', {});
    expect(await reportedFlags()).toEqual([false, false, false, false]);
  });
});
