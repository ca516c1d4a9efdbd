import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, onTestFinished, test } from 'vitest';
import { signToken } from '../../../src/server/auth/signed-token.ts';
import { DEFAULT_CONFIG } from '../../../src/server/config/config.ts';
import { type RunningServer, serve } from '../../../src/server/serve.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { waitFor } from '../../support/wait-for.ts';

const folder = mkdtempSync(join(tmpdir(), 'revocation-'));
const list = join(folder, 'revoked');
const audit = join(folder, 'audit');
const secretFile = join(folder, 'secret');
const SECRET = 's'.repeat(32);
let server: RunningServer | null = null;

afterEach(async () => {
  await server?.close();
  server = null;
});
afterAll(() => rmSync(folder, { recursive: true }));

async function start(): Promise<string> {
  writeFileSync(secretFile, SECRET);
  writeFileSync(list, 'old # from before the start\n');
  server = await serve({
    ...DEFAULT_CONFIG,
    wsAuth: 'signed-bearer-token',
    wsSharedSecretFile: secretFile,
    revokedTokens: list,
    auditLog: audit,
    logLevel: 'error',
  });
  return server.url!;
}

async function connect(url: string, jti: string): Promise<TestClient> {
  const token = signToken({ jti, exp: Math.floor(Date.now() / 1_000) + 60 }, SECRET);
  const client = await TestClient.connect(url, { authorization: `Bearer ${token}` });
  onTestFinished(() => client.close());
  await client.handshake();
  return client;
}

test('refuses a revoked token and closes its connections on reload', async () => {
  const url = await start();
  await expect(connect(url, 'old')).rejects.toThrow(/401/);
  const [lost, kept] = [await connect(url, 'lost'), await connect(url, 'kept')];
  appendFileSync(list, 'lost\n');
  expect(await server?.reload()).toBe(true);
  expect(await lost.closed).toMatchObject({ code: 1008, reason: 'the token has been revoked' });
  await expect(connect(url, 'lost')).rejects.toThrow(/401/);
  await expect(kept.call('environment/status', {})).resolves.toMatchObject({ status: 'ready' });
  const records = () =>
    readFileSync(audit, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line));
  const rejected = await waitFor('the records', () => {
    const found = records().filter(({ event }) => event === 'connectionRejected');
    return found.length === 2 && found;
  });
  expect(rejected).toMatchObject([
    { status: 401, reason: 'revoked websocket jwt', tokenId: 'old' },
    { status: 401, reason: 'revoked websocket jwt', tokenId: 'lost' },
  ]);
});

test('keeps the old list when it can no longer be read', async () => {
  const url = await start();
  rmSync(list);
  expect(await server?.reload()).toBe(true);
  await expect(connect(url, 'old')).rejects.toThrow(/401/);
});
