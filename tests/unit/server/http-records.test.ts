import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { DEFAULT_CONFIG, type ExecServerConfig } from '../../../src/server/config/config.ts';
import { type RunningServer, serve } from '../../../src/server/serve.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { waitFor } from '../../support/wait-for.ts';

let folder: string;
let audit: string;
let web: Server;
let port: number;
let server: RunningServer | null = null;
let client: TestClient | null = null;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'http-records-'));
  audit = join(folder, 'audit');
  web = createServer((_, response) => response.writeHead(418).end('tea')).listen(0, '127.0.0.1');
  await once(web, 'listening');
  ({ port } = web.address() as AddressInfo);
});
afterEach(async () => {
  await client?.close();
  await server?.close();
  web.closeAllConnections();
  web.close();
  rmSync(folder, { recursive: true });
});

async function connect(config: Partial<ExecServerConfig>): Promise<TestClient> {
  server = await serve({ ...DEFAULT_CONFIG, auditLog: audit, metrics: true, ...config });
  client = await TestClient.connect(server.url!);
  await client.handshake();
  return client;
}

const request = (url: string, streamResponse = false) =>
  client!.call('http/request', { requestId: 'r', method: 'POST', url, headers: [], streamResponse });

const records = (event: string) =>
  readFileSync(audit, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
    .filter((record) => record.event === event);

async function recorded(count: number) {
  await waitFor('the records', () => records('http').length === count);
  return records('http');
}

test.each([false, true])(
  'records a request with host and status, without its path (streamed: %j)',
  async (streamed) => {
    await connect({});
    await request(`http://user:hunter2@127.0.0.1:${port}/secret-path?key=hunter3`, streamed);
    expect(await recorded(1)).toMatchObject([
      {
        method: 'POST',
        host: `127.0.0.1:${port}`,
        outcome: 'answered',
        status: 418,
        who: { kind: 'anonymous' },
      },
    ]);
    expect(readFileSync(audit, 'utf8')).not.toMatch(/secret-path|hunter/);
  },
);

test('records a refused request once and counts it as refused', async () => {
  await connect({ httpDeniedHosts: '127.0.0.1' });
  await expect(request(`http://127.0.0.1:${port}/x`)).rejects.toMatchObject({ code: -32600 });
  expect(await recorded(1)).toMatchObject([
    { outcome: 'refused', reason: expect.stringContaining('httpDeniedHosts') },
  ]);
  expect(records('refused')).toEqual([]);
  const metrics = await (await fetch(`${server!.url!.replace('ws', 'http')}/metrics`)).text();
  expect(metrics).toContain('exec_server_refusals_total{cause="forbidden"} 1');
  expect(metrics).toContain('exec_server_requests_total{method="http/request",result="error"} 1');
});

test('records a failed request without the error text, which contains the path', async () => {
  await connect({});
  web.closeAllConnections();
  web.close();
  await expect(request(`http://127.0.0.1:${port}/secret-path`)).rejects.toMatchObject({ code: -32603 });
  await expect(request('not a url')).rejects.toMatchObject({ code: -32602 });
  const [failed, invalid] = await recorded(2);
  expect(failed).toMatchObject({ host: `127.0.0.1:${port}`, outcome: 'failed' });
  expect(invalid).toMatchObject({ host: null, outcome: 'failed' });
  expect(readFileSync(audit, 'utf8')).not.toMatch(/secret-path|not a url/);
});
