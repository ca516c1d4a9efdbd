import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer, type TlsOptions } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { openTunnel } from '../../../../src/relay/outbound/proxy.ts';
import { proxyServer } from '../../../support/web-servers.ts';

const fixture = (name: string) =>
  readFileSync(new URL(`../../../fixtures/localhost-${name}.pem`, import.meta.url), 'utf8');

test('checks the certificate behind a proxy against the target address', async () => {
  const proxy = await proxyServer();
  onTestFinished(() => proxy.close());
  // The certificate is valid for the proxy's address, but not for this one.
  const server = createServer({ cert: fixture('cert'), key: fixture('key') });
  server.listen(0, '0.0.0.0');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const outbound = { env: { HTTPS_PROXY: proxy.url }, tls: { ca: fixture('cert') } };
  const { signal } = new AbortController();
  await expect(openTunnel(new URL(`https://0.0.0.0:${port}`), outbound, signal)).rejects.toThrow(
    /IP: 0\.0\.0\.0 is not in the cert's list/,
  );
  expect(proxy.seen).toHaveLength(1);
});

test('sends the name of an https proxy in its TLS handshake', async () => {
  const names: string[] = [];
  const SNICallback: TlsOptions['SNICallback'] = (name, decided) => {
    names.push(name);
    decided(null);
  };
  const proxy = createServer({ cert: fixture('cert'), key: fixture('key'), SNICallback });
  proxy.on('tlsClientError', () => {});
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  onTestFinished(() => void proxy.close());
  const { port } = proxy.address() as AddressInfo;
  const through = (host: string) => {
    const outbound = { env: { HTTPS_PROXY: `https://${host}:${port}` } };
    return openTunnel(new URL('https://relay.example'), outbound, new AbortController().signal);
  };
  // The handshake fails because the certificate is not trusted, but after the server name was sent.
  await expect(through('localhost')).rejects.toThrow(/self-signed/);
  await expect(through('127.0.0.1')).rejects.toThrow(/self-signed/);
  expect(names).toEqual(['localhost']);
});
