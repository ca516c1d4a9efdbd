import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { signToken } from '../../../src/server/auth/signed-token.ts';
import { DEFAULT_CONFIG, type ExecServerConfig } from '../../../src/server/config/config.ts';
import { type RunningServer, serve } from '../../../src/server/serve.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { managed, ROOT_READ } from '../../support/escape-fixture.ts';
import { shell } from '../../support/programs.ts';
import { waitFor } from '../../support/wait-for.ts';

const SECRET = 's'.repeat(32);
let folder: string;
let audit: string;
let server: RunningServer | null;
let client: TestClient | null;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'start-records-'));
  audit = join(folder, 'audit');
  server = null;
  client = null;
});
afterEach(async () => {
  await client?.close();
  await server?.close();
  rmSync(folder, { recursive: true });
});

const start = (config: Partial<ExecServerConfig> = {}) =>
  serve({ ...DEFAULT_CONFIG, auditLog: audit, logLevel: 'error', shutdownGracePeriodMs: 0, ...config });

const lines = () =>
  readFileSync(audit, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

const recorded = (event: string) =>
  waitFor(`the record of ${event}`, () => lines().find((line) => line.event === event));

test('closes the audit log when the server cannot listen', async () => {
  const occupied = await serve({ ...DEFAULT_CONFIG, logLevel: 'error' });
  try {
    await expect(start({ listen: occupied.url! })).rejects.toThrow(/the port is in use/);
  } finally {
    await occupied.close();
  }
  expect(lines().map(({ event }) => event)).toEqual(['opened', 'closed']);
});

test('records the access rights of a token', async () => {
  const wsSharedSecretFile = join(folder, 'secret');
  writeFileSync(wsSharedSecretFile, SECRET);
  server = await start({ wsAuth: 'signed-bearer-token', wsSharedSecretFile });
  const claims = { exp: Math.floor(Date.now() / 1_000) + 60, exec_server: { scopes: ['read-only', 'net'] } };
  const authorization = `Bearer ${signToken(claims, SECRET)}`;
  client = await TestClient.connect(server.url!, { authorization });
  const { access } = await recorded('connected');
  expect(access).toEqual({
    exec: false,
    observe: false,
    files: 'read',
    net: true,
    metrics: false,
    below: null,
  });
});

test('records the sandbox type of a program', async () => {
  server = await start();
  client = await TestClient.connect(server.url!);
  await client.handshake();
  await client.call('process/start', { ...shell('p', 'true'), sandbox: managed([ROOT_READ]) });
  expect((await recorded('start')).policy).toMatchObject({ sandbox: 'linuxSeccomp', limits: { pids: null } });
  await client.closedProcess('p');
});
