import { once } from 'node:events';
import { appendFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { startServerProcess, TestClient } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';
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

async function startWithRevocations(...flags: string[]) {
  if (!existsSync(secret)) await token('--out', secret);
  writeFileSync(list, '');
  const auth = ['--ws-auth', 'signed-bearer-token', '--ws-shared-secret-file', secret];
  const server = await startServerProcess([...auth, '--revoked-tokens', list, ...flags]);
  onTestFinished(() => server.close());
  const sign = (...args: string[]) => token('signed', '--secret-file', secret, ...args);
  return { server, sign };
}

test('SIGHUP revokes a token, resets its TCP streams and keeps other connections; metrics have their own scope', async () => {
  const { server, sign } = await startWithRevocations('--metrics');
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

test('programs of a revoked token end soon, also if their client had asked the server to keep its session for long', async () => {
  const { server, sign } = await startWithRevocations('--metrics', '--detached-session-ttl', '100ms');
  const [lost, kept] = await Promise.all([sign(), sign()]);
  /** Starts a program in a session that the client wants to keep for an hour. */
  const start = async ({ token: text }: Record<string, string>) => {
    const client = await TestClient.connect(server.url, { authorization: `Bearer ${text}` });
    onTestFinished(() => client.close());
    await client.handshake({ clientName: 'test', detachedSessionTtlMs: 3_600_000 });
    await client.call('process/start', shell('job', 'echo $$; exec sleep 300'));
    const pid = await waitFor('the process id', () => client.process('job').text().trim());
    return { client, isRunning: () => existsSync(`/proc/${pid}`) };
  };
  const [attached, detached, other] = [await start(lost), await start(lost), await start(kept)];
  for (const { client } of [detached, other]) await client.drop();
  const metrics = async () => {
    const headers = { authorization: `Bearer ${kept.token}` };
    return (await fetch(`${server.url.replace('ws', 'http')}/metrics`, { headers })).text();
  };
  await waitFor('the lost connections', async () =>
    /^exec_server_sessions\{state="detached"\} 2$/m.test(await metrics()),
  );
  appendFileSync(list, `${lost.id}\n`);
  server.process.kill('SIGHUP');
  for (const { isRunning } of [attached, detached]) await waitFor('the end', () => !isRunning());
  expect(other.isRunning()).toBe(true);
});
