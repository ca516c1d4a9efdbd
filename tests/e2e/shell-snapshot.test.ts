import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startServer, type TestClient, type TestServer } from '../../src/testing/index.ts';
import { isAlive } from '../support/children.ts';
import { plain } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

let home: string;
let server: TestServer;
let client: TestClient;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'shell-snapshot-'));
});

afterEach(async () => {
  await server.close();
  rmSync(home, { recursive: true });
});

async function serve(config: Parameters<typeof startServer>[0] = {}): Promise<void> {
  server = await startServer(config);
  client = await server.connect();
}

const profile = (text: string) => writeFileSync(join(home, '.bash_profile'), `${text}\n`);

function login(processId: string, script: string) {
  return {
    ...plain,
    processId,
    argv: ['/bin/bash', '-lc', script],
    env: { HOME: home, PATH: '/usr/bin:/bin' },
    shellSnapshot: { scopeId: 's', shell: { name: 'bash', path: '/bin/bash' } },
  };
}

/** A login shell that never becomes ready; resolves to its pid once it runs. */
async function stuckLogin(processId: string): Promise<{ pid: number; started: Promise<unknown> }> {
  profile('echo $$ > "$HOME/pid"; sleep 1000');
  const started = client
    .call('process/start', login(processId, 'true'))
    .catch((error: Error) => error.message);
  const file = join(home, 'pid');
  await waitFor('the login shell', () => existsSync(file) && readFileSync(file, 'utf8') !== '');
  return { pid: Number(readFileSync(file, 'utf8')), started };
}

describe('while a login shell starts', () => {
  test('cancelling the start ends the shell', async () => {
    await serve();
    const { pid, started } = await stuckLogin('p');
    expect(await client.call('process/terminate', { processId: 'p' })).toEqual({ running: true });
    expect(await started).toContain('cancelled');
    await waitFor('the end of the login shell', () => !isAlive(pid));
  });

  test('the end of the session ends the shell', async () => {
    await serve({ detachedSessionTtlMs: 0 });
    const { pid, started } = await stuckLogin('p');
    started.catch(() => {});
    await client.close();
    await waitFor('the end of the login shell', () => !isAlive(pid));
  });

  test('any number of other requests is served', async () => {
    await serve({ concurrentRequests: 1 });
    await stuckLogin('p');
    await client.call('fs/getMetadata', { path: 'file:///' });
    await client.call('process/start', { ...plain, processId: 'other', argv: ['/bin/true'] });
    expect((await client.closedProcess('other')).exitCode).toBe(0);
    await client.call('process/terminate', { processId: 'p' });
  });
});

test('lists the requested command', async () => {
  await serve();
  profile('f() { echo f; }');
  await client.call('process/start', login('p', 'f'));
  expect((await client.closedProcess('p')).text()).toBe('f\n');
  expect((await client.call('process/list', {})).processes[0]!.argv).toEqual(['/bin/bash', '-lc', 'f']);
});

test('keeps the states of a resumed session', async () => {
  await serve();
  profile('echo x >> "$HOME/logins"');
  const first = await server.connect({ handshake: false });
  const session = await first.handshake();
  await first.call('process/start', login('p', 'true'));
  await first.closedProcess('p');
  await first.close();
  const second = await server.connect({ handshake: false });
  await waitFor('the session to be detached', () =>
    second.handshake({ clientName: 'test', resumeSessionId: session }).catch(() => false),
  );
  await second.call('process/start', login('q', 'grep -c x "$HOME/logins"'));
  expect((await second.closedProcess('q')).text()).toBe('1\n');
});

test('sandboxes the login shell and the command alike', async () => {
  await serve();
  profile('touch "$HOME/written" 2>/dev/null || export DENIED=1; f() { echo "f $DENIED"; }');
  const sandbox = { type: 'readOnly' } as const;
  for (const processId of ['p', 'q']) {
    const { sandboxType } = await client.call('process/start', {
      ...login(processId, 'f; touch "$HOME/written"'),
      sandbox,
    });
    expect(sandboxType).toBe('linuxSeccomp');
    const ended = await client.closedProcess(processId);
    expect(ended.text('stdout')).toBe('f 1\n');
    expect(ended.exitCode).toBe(1);
  }
  expect(existsSync(join(home, 'written'))).toBe(false);
  // Without a sandbox there is a separate state.
  await client.call('process/start', login('free', 'f'));
  expect((await client.closedProcess('free')).text()).toBe('f \n');
});
