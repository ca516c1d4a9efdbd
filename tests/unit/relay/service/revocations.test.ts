import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { MAX_REVOCATION_FILE_BYTES } from '../../../../src/listener/limits.ts';
import { Environment, post, someKey, startTestRelay, TestPeer, token } from './relay-fixture.ts';

test('closes the sockets of a revoked token, refuses new ones, and records the token id', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'relay-revoked-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const revokedFile = join(folder, 'revoked');
  writeFileSync(revokedFile, '# none yet\n');
  const auditLog = join(folder, 'audit');
  const relay = await startTestRelay({ revokedFile, auditLog });
  const environment = Object.assign(new Environment(relay.url), {
    harnessToken: token('harness', 'env-1', 'bad-harness'),
  });
  const executor = await environment.executor();
  const harness = await environment.harness();
  const { url } = (await environment.connect(someKey())).body;
  appendFileSync(revokedFile, 'bad-harness # lost laptop\n');
  await relay.reload();
  expect((await harness.hasClosed()).reason).toBe('the token was revoked');
  await expect(TestPeer.connect(url)).rejects.toMatchObject({ status: 401 });
  expect((await environment.connect(someKey())).status).toBe(401);
  expect(executor.closed).toBeNull();
  const wrongRole = token('metrics', null, 'curious');
  expect((await post(`${environment.url}/connect`, wrongRole, {})).status).toBe(403);
  expect((await post(`${environment.url}/connect`, 'guess', {})).status).toBe(401);
  await relay.close();
  const records = readFileSync(auditLog, 'utf8').trimEnd().split('\n');
  const rejected = records
    .map((line) => JSON.parse(line))
    .filter(({ event }) => event === 'connectionRejected');
  expect(rejected.map(({ tokenId, reason }) => [tokenId, reason])).toEqual([
    ['bad-harness', 'the URL is revoked'],
    ['bad-harness', 'the token is revoked'],
    ['curious', 'the token has the role metrics, not harness'],
    [undefined, 'the token was not issued by this relay'],
  ]);
});

test('rejects a revocation list that is too large', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'relay-revoked-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const revokedFile = join(folder, 'revoked');
  writeFileSync(revokedFile, Buffer.alloc(MAX_REVOCATION_FILE_BYTES + 1, '\n'));
  await expect(startTestRelay({ revokedFile })).rejects.toThrow(/it is too large/);
});
