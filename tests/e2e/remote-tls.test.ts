import { readFileSync } from 'node:fs';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { createLogger } from '../../src/observability/log.ts';
import { RunningExecutor } from '../../src/relay/executor/run-executor.ts';
import { serveHarnesses } from '../../src/relay/executor/run-remote-environment.ts';
import { connectRemote } from '../../src/relay/harness/relay-source.ts';
import { bearerAuth } from '../../src/relay/registry-auth.ts';
import { startRelay } from '../../src/relay/service/relay.ts';
import { DEFAULT_CONFIG } from '../../src/server/config/config.ts';
import { serve } from '../../src/server/serve.ts';
import type { TlsOptions } from '../../src/transport/tls-options.ts';
import { Certificates } from '../support/certificates.ts';
import { onFreePort } from '../support/free-port.ts';
import { ENVIRONMENT, relayToken, SECRET } from '../support/relay.ts';
import { waitFor } from '../support/wait-for.ts';
import { proxyServer } from '../support/web-servers.ts';

const certificates = new Certificates();
afterAll(() => certificates.remove());
const authority = certificates.authority('authority');
const files = certificates.signedBy(authority, 'relay');
const ca = readFileSync(authority.cert, 'utf8');
const log = createLogger('error', () => {});

/** Starts a relay with TLS at the host, and returns the options for its clients. */
function open(host: string, tls: TlsOptions, env: Record<string, string> = {}) {
  return onFreePort((port) => openAt(port, host, tls, env));
}

async function openAt(port: number, host: string, tls: TlsOptions, env: Record<string, string>) {
  const relay = await startRelay({
    address: { kind: 'websocket', secure: true, host: '127.0.0.1', port },
    tls: { ...files, clientCa: null },
    secret: SECRET,
    store: 'memory',
    publicUrl: `https://${host}:${port}`,
    nodeUrl: null,
    revokedFile: null,
    auditLog: null,
    metrics: false,
    log,
  });
  onTestFinished(() => relay.close());
  const place = { registryUrl: relay.url, environmentId: ENVIRONMENT, tls, env };
  return { place, port };
}

type Place = Awaited<ReturnType<typeof open>>['place'];

async function startExecutor(place: Place): Promise<RunningExecutor> {
  const server = await serve({ ...DEFAULT_CONFIG, listen: 'off', shutdownGracePeriodMs: 0 });
  onTestFinished(() => server.close());
  const auth = bearerAuth(relayToken('executor'));
  const executor = new RunningExecutor({ ...place, auth, log, accept: serveHarnesses(server) });
  onTestFinished(() => executor.close());
  executor.ended.catch(() => {});
  return executor;
}

async function status(place: Place): Promise<unknown> {
  const client = await connectRemote({ ...place, auth: relayToken('harness') });
  try {
    return await client.call('environment/status', null);
  } finally {
    await client.close();
  }
}

test('executor and harness connect with a configured certificate authority', async () => {
  const { place } = await open('127.0.0.1', { ca });
  await startExecutor(place);
  expect(await status(place)).toEqual({ status: 'ready' });
});

test('does not send the token to an untrusted relay', async () => {
  const { place } = await open('127.0.0.1', {});
  const executor = await startExecutor(place);
  await expect(executor.ended).rejects.toMatchObject({ name: 'RegistryError', retryable: false });
  await expect(status(place)).rejects.toMatchObject({
    kind: 'connectFailed',
    retryable: false,
    message: expect.stringContaining('is not trusted'),
  });
});

test('uses the configured proxy for all connections', async () => {
  const proxy = await proxyServer();
  onTestFinished(() => proxy.close());
  // The only address of this machine that uses a proxy. No certificate is valid for it.
  const { place, port } = await open('0.0.0.0', { rejectUnauthorized: false }, { HTTPS_PROXY: proxy.url });
  await startExecutor(place);
  await waitFor('the executor', () => proxy.seen.length >= 2);
  expect(await status(place)).toEqual({ status: 'ready' });
  expect(new Set(proxy.seen.map(({ line }) => line))).toEqual(new Set([`CONNECT 0.0.0.0:${port}`]));
  // One connection each for registration, validation, bundle and the two websockets.
  expect(proxy.seen.length).toBeGreaterThanOrEqual(5);
});
