import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ExecServerClient } from '../../src/client/client.ts';
import { startServer } from '../../src/testing/index.ts';
import { echoPeer, tcpPeer } from '../support/tcp-peers.ts';
import { waitFor } from '../support/wait-for.ts';

async function open(config: Parameters<typeof startServer>[0] = {}) {
  const server = await startServer(config);
  onTestFinished(() => server.close());
  const client = await ExecServerClient.connect({ url: server.url });
  onTestFinished(() => client.close());
  return { server, client };
}

function file(name: string, content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'tcp-limits-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, name), content);
  return join(folder, name);
}

test('a minimum sandbox without network refuses streams', async () => {
  const root = { path: { type: 'special', value: { kind: 'root' } }, access: 'read' };
  const files = { type: 'restricted', entries: [root] };
  const permissions = { type: 'managed', file_system: files, network: 'restricted' };
  const minSandbox = file('min.json', JSON.stringify({ permissions, windowsSandboxLevel: 'disabled' }));
  const { client } = await open({ minSandbox });
  const peer = await echoPeer();
  await expect(client.connectTcp({ port: peer.port })).rejects.toThrow('--min-sandbox');
  expect(peer.sockets.size).toBe(0);
});

test('the port of the server itself is refused', async () => {
  const { client, server } = await open({ tcpAllowedHosts: '*' });
  const port = Number(new URL(server.url).port);
  await expect(client.connectTcp({ port })).rejects.toThrow('the port belongs to this server');
});

test('bytes for peers that do not read are limited per connection', async () => {
  const { client } = await open({ maxRequestBytesInFlight: 1024 * 1024 });
  const peer = await tcpPeer((socket) => socket.pause());
  await client.call('tcp/connect', { streamId: 's', port: peer.port });
  const chunk = Buffer.alloc(256 * 1024).toString('base64');
  const answers = Array.from({ length: 64 }, () => client.call('tcp/data', { streamId: 's', chunk }));
  await expect(Promise.all(answers)).rejects.toThrow('maxRequestBytesInFlight');
  // Other requests are served, and closing the stream frees the bytes.
  await client.call('environment/status', {});
  await client.call('tcp/close', { streamId: 's' });
  await Promise.allSettled(answers);
  await client.call('tcp/connect', { streamId: 's', port: peer.port });
  await client.call('tcp/data', { streamId: 's', chunk });
});

test('streams are reset when the server closes their connection', async () => {
  const { client, server } = await open();
  const peer = await echoPeer();
  const socket = await client.connectTcp({ port: peer.port });
  socket.on('error', () => {});
  const [accepted] = [...peer.sockets];
  const failed = once(accepted!, 'error');
  await server.close();
  expect(((await failed)[0] as NodeJS.ErrnoException).code).toBe('ECONNRESET');
});

test('the audit log has every attempt', async () => {
  const auditLog = file('audit', '');
  const { client } = await open({ auditLog });
  const peer = await echoPeer();
  const socket = await client.connectTcp({ port: peer.port });
  socket.destroy();
  await expect(client.connectTcp({ host: 'db.example', port: 5432 })).rejects.toThrow('tcpAllowedHosts');
  const records = () =>
    readFileSync(auditLog, 'utf8')
      .split('\n')
      .filter((line) => line.includes('"event":"tcp"'))
      .map((line) => JSON.parse(line));
  await waitFor('two records', () => records().length === 2);
  expect(records()).toMatchObject([
    { host: '127.0.0.1', port: peer.port, outcome: 'connected' },
    { host: 'db.example', port: 5432, outcome: 'refused' },
  ]);
});
