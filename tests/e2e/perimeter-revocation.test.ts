import { once } from 'node:events';
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { startServerProcess, TestClient } from '../../src/testing/index.ts';
import { echoPeer } from '../support/tcp-peers.ts';
import { waitFor } from '../support/wait-for.ts';
import { Workspace } from '../unit/cli/run-cli.ts';

const cli = new Workspace();
const folder = mkdtempSync(join(tmpdir(), 'perimeter-revocation-'));
const secret = join(folder, 'secret');
const list = join(folder, 'revoked');
afterAll(() => {
  cli.close();
  rmSync(folder, { recursive: true });
});

/** What `exec-server token` prints. */
async function token(...args: string[]): Promise<Record<string, string>> {
  const { code, stdout } = await cli.run(['token', ...args, '--json']);
  expect(code).toBe(0);
  return JSON.parse(stdout);
}

test('SIGHUP revokes a token, resets its TCP streams and keeps other connections; metrics have their own scope', async () => {
  await token('--out', secret);
  writeFileSync(list, '');
  const auth = ['--ws-auth', 'signed-bearer-token', '--ws-shared-secret-file', secret];
  const server = await startServerProcess([...auth, '--revoked-tokens', list, '--metrics']);
  onTestFinished(() => server.close());
  const sign = (...args: string[]) => token('signed', '--secret-file', secret, ...args);
  const connect = async (text: string) => {
    const client = await TestClient.connect(server.url, { authorization: `Bearer ${text}` });
    onTestFinished(() => client.close());
    await client.handshake();
    return client;
  };
  const scrape = async (text: string) => {
    const headers = { authorization: `Bearer ${text}` };
    return (await fetch(`${server.url.replace('ws', 'http')}/metrics`, { headers })).status;
  };
  const [lost, kept, files, scraper] = await Promise.all([
    sign(),
    sign(),
    sign('--scope', 'files'),
    sign('--scope', 'metrics'),
  ]);
  const [first, second] = [await connect(lost.token!), await connect(kept.token!)];
  const peer = await echoPeer();
  await first.call('tcp/connect', { streamId: 's', port: peer.port });
  const accepted = await waitFor('the stream', () => [...peer.sockets][0]);
  const reset = once(accepted!, 'error');
  appendFileSync(list, `${lost.id}\n`);
  server.process.kill('SIGHUP');
  expect(await first.closed).toMatchObject({ code: 1008, reason: 'the token has been revoked' });
  expect(((await reset)[0] as NodeJS.ErrnoException).code).toBe('ECONNRESET');
  await expect(connect(lost.token!)).rejects.toThrow(/401/);
  await second.call('tcp/connect', { streamId: 's', port: peer.port });
  await second.call('environment/status', {});
  expect(await Promise.all([lost, kept, files, scraper].map((one) => scrape(one.token!)))).toEqual([
    401, 200, 403, 200,
  ]);
  const idle = await connect(scraper.token!);
  await expect(idle.request('fs/getMetadata', { path: 'file:///' })).rejects.toMatchObject({ code: -32003 });
});
