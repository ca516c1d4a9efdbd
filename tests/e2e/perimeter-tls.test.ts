import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:tls';
import { afterAll, afterEach, expect, test } from 'vitest';
import { ExecServerClient } from '../../src/client/client.ts';
import { type ServerProcess, startServerProcess, TestClient } from '../../src/testing/index.ts';
import type { TlsOptions } from '../../src/transport/tls-options.ts';
import { connectWebSocket } from '../../src/transport/websocket.ts';
import { Certificates, pem } from '../support/certificates.ts';
import { waitFor } from '../support/wait-for.ts';

const certificates = new Certificates();
const ours = certificates.authority('ours');
const otherCa = certificates.authority('other');
const [first, second] = [certificates.signedBy(ours, 'first'), certificates.signedBy(ours, 'second')];
const member = certificates.signedBy(ours, 'member');
const outsider = certificates.signedBy(otherCa, 'outsider');
const ca = readFileSync(ours.cert, 'utf8');

const servers: ServerProcess[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});
afterAll(() => certificates.remove());

async function start(...flags: string[]): Promise<ServerProcess> {
  const server = await startServerProcess(['--listen', 'wss://127.0.0.1:0', ...flags]);
  servers.push(server);
  return server;
}

async function client(url: string, tls: TlsOptions): Promise<TestClient> {
  const connected = new TestClient(await connectWebSocket(url, { tls }));
  await connected.handshake();
  return connected;
}

/** The common name of the certificate that the server sends now. */
async function certificateName(url: string): Promise<string | undefined> {
  const { port } = new URL(url);
  return await new Promise((resolve, reject) => {
    const socket = connect({ port: Number(port), host: '127.0.0.1', ca }, () => {
      const { CN } = socket.getPeerCertificate().subject;
      resolve(Array.isArray(CN) ? CN[0] : CN);
      socket.destroy();
    });
    socket.on('error', reject);
  });
}

test('serves a client that trusts the CA, and no other', async () => {
  const server = await start('--tls-cert', first.cert, '--tls-key', first.key);
  expect(server.url).toMatch(/^wss:\/\/127\.0\.0\.1:\d+$/);
  const served = await client(server.url, { ca });
  expect(await served.call('environment/status', {})).toEqual({ status: 'ready' });
  await expect(client(server.url, { ca: readFileSync(otherCa.cert) })).rejects.toThrow(
    /verify|self-signed|issuer/,
  );
  await expect(client(server.url.replace('wss:', 'ws:'), {})).rejects.toThrow();
  await served.close();
});

test('refuses versions before TLS 1.2', async () => {
  const server = await start('--tls-cert', first.cert, '--tls-key', first.key);
  const { port } = new URL(server.url);
  const failure = await new Promise<NodeJS.ErrnoException>((resolve) => {
    const options = {
      ca,
      minVersion: 'TLSv1',
      maxVersion: 'TLSv1.1',
      ciphers: 'DEFAULT@SECLEVEL=0',
    } as const;
    connect({ port: Number(port), host: '127.0.0.1', ...options }).on('error', resolve);
  });
  expect(failure.code).toMatch(/PROTOCOL_VERSION/);
});

test('with a client CA accepts only clients with a certificate of that CA', async () => {
  const flags = ['--tls-cert', first.cert, '--tls-key', first.key, '--tls-client-ca', ours.cert];
  const server = await start(...flags);
  const served = await client(server.url, { ca, ...pem(member) });
  expect(await served.call('environment/status', {})).toEqual({ status: 'ready' });
  await expect(client(server.url, { ca })).rejects.toThrow();
  await expect(client(server.url, { ca, ...pem(outsider) })).rejects.toThrow();
  await served.close();
});

test('a client without a certificate learns that it needs one', async () => {
  const server = await start('--tls-cert', first.cert, '--tls-key', first.key, '--tls-client-ca', ours.cert);
  await expect(ExecServerClient.connect({ url: server.url, tls: { ca } })).rejects.toThrow(
    `${server.url} requires a client certificate; pass one`,
  );
});

test('SIGHUP loads new certificates and keeps connections; invalid ones are not used', async () => {
  const [cert, key] = [certificates.path('live.pem'), certificates.path('live.key')];
  copyFileSync(first.cert, cert);
  copyFileSync(first.key, key);
  const server = await start('--tls-cert', cert, '--tls-key', key, '--log-level', 'info');
  const served = await client(server.url, { ca });
  expect(await certificateName(server.url)).toBe('first');

  copyFileSync(second.cert, cert);
  server.process.kill('SIGHUP');
  await waitFor('the error', () => server.stderr().includes('cannot reload the certificates'));
  expect(server.stderr()).toContain('cannot be used together');
  expect(await certificateName(server.url)).toBe('first');

  copyFileSync(second.key, key);
  server.process.kill('SIGHUP');
  await waitFor('the new certificate', async () => (await certificateName(server.url)) === 'second');
  expect(await served.call('environment/status', {})).toEqual({ status: 'ready' });

  writeFileSync(cert, 'no certificate');
  server.process.kill('SIGHUP');
  await waitFor('the second error', () => server.stderr().includes('is not a PEM file'));
  const late = await client(server.url, { ca });
  expect(await late.call('environment/status', {})).toEqual({ status: 'ready' });
  await Promise.all([served.close(), late.close()]);
});

test('closes the connection of a peer that does not start TLS', async () => {
  const { connect: connectPlain } = await import('node:net');
  const server = await start(
    '--tls-cert',
    first.cert,
    '--tls-key',
    first.key,
    '--handshake-timeout',
    '100ms',
  );
  const socket = connectPlain(Number(new URL(server.url).port), '127.0.0.1');
  socket.on('error', () => {});
  await new Promise((resolve) => socket.on('close', resolve).resume());
});

test.each<[string, readonly string[], string]>([
  ['wss without a certificate', ['--listen', 'wss://127.0.0.1:0'], '`--tls-cert FILE` and `--tls-key FILE`'],
  [
    'a certificate without wss',
    ['--listen', 'ws://127.0.0.1:0', '--tls-cert', first.cert, '--tls-key', first.key],
    'TLS settings need `--listen wss://IP:PORT`',
  ],
  [
    'a missing key',
    ['--listen', 'wss://127.0.0.1:0', '--tls-cert', first.cert, '--tls-key', '/nonexistent/key'],
    'cannot read --tls-key /nonexistent/key',
  ],
  [
    'the key of another certificate',
    ['--listen', 'wss://127.0.0.1:0', '--tls-cert', first.cert, '--tls-key', second.key],
    'cannot be used together',
  ],
])('does not start with %s', async (_name, flags, message) => {
  await expect(startServerProcess(flags)).rejects.toThrow(message);
});

test('warns about a network listener without TLS', async () => {
  const server = await startServerProcess(['--listen', 'ws://0.0.0.0:0', '--insecure-no-auth']);
  servers.push(server);
  await waitFor('the warning', () => server.stderr().includes('connections are not encrypted'));
});
