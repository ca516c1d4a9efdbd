import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { INLINE_READ_BYTES } from '../../src/server/limits.ts';
import { startServer, TestClient, type TestServer } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';
import { type ParsedSample, parseExposition } from '../unit/observability/parse-exposition.ts';

let server: TestServer | null = null;
afterEach(async () => {
  await server?.close();
  server = null;
});

const metricsUrl = () => `${server!.url.replace('ws:', 'http:')}/metrics`;

async function scrape(headers: Record<string, string> = {}): Promise<Map<string, ParsedSample[]>> {
  const response = await fetch(metricsUrl(), { headers });
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  return parseExposition(await response.text());
}

function value(
  samples: Map<string, ParsedSample[]>,
  name: string,
  labels: Record<string, string> = {},
): number {
  const found = samples
    .get(name)
    ?.find((sample) => Object.entries(labels).every(([label, text]) => sample.labels[label] === text));
  return found?.value ?? 0;
}

test('serves no metrics by default', async () => {
  server = await startServer();
  expect((await fetch(metricsUrl())).status).toBe(404);
});

test('counts connections, sessions, programs, requests and output', async () => {
  server = await startServer({ metrics: true });
  const client = await server.connect();
  await client.call('process/start', shell('done', 'printf 12345; exit 1'));
  await client.closedProcess('done');
  await client.call('process/start', { ...shell('cut', 'yes'), limits: { outputBytes: 10 } });
  await client.closedProcess('cut');
  await client.call('process/start', shell('running', 'sleep 1000'));
  await client.call('fs/readFile', { path: 'file:///nowhere' }).catch(() => {});
  const samples = await scrape();
  expect(value(samples, 'exec_server_connections_active')).toBe(1);
  expect(value(samples, 'exec_server_connections_total')).toBe(1);
  expect(value(samples, 'exec_server_sessions', { state: 'attached' })).toBe(1);
  expect(value(samples, 'exec_server_processes_active')).toBe(1);
  expect(value(samples, 'exec_server_processes_started_total')).toBe(3);
  expect(value(samples, 'exec_server_processes_finished_total', { result: 'error' })).toBe(1);
  expect(value(samples, 'exec_server_processes_finished_total', { result: 'outputLimit' })).toBe(1);
  expect(value(samples, 'exec_server_output_bytes_total', { stream: 'stdout' })).toBe(15);
  const start = { method: 'process/start', result: 'success' };
  expect(value(samples, 'exec_server_requests_total', start)).toBe(3);
  for (const name of ['request', 'request_total']) {
    expect(value(samples, `exec_server_${name}_duration_seconds_count`, start)).toBe(3);
  }
  const queued = { method: 'process/start' };
  expect(value(samples, 'exec_server_request_queue_duration_seconds_count', queued)).toBe(3);
  expect(value(samples, 'exec_server_requests_total', { method: 'fs/readFile', result: 'error' })).toBe(1);
  expect(value(samples, 'process_resident_memory_bytes')).toBeGreaterThan(0);

  await client.close();
  const after = await scrape();
  expect(value(after, 'exec_server_connections_active')).toBe(0);
  expect(value(after, 'exec_server_sessions', { state: 'detached' })).toBe(1);
});

test('counts a response that is too large as one error', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'metrics-'));
  try {
    writeFileSync(join(folder, 'large'), Buffer.alloc(2 * INLINE_READ_BYTES));
    server = await startServer({ metrics: true, maxResponseBytes: 1024 * 1024 });
    const client = await server.connect();
    const read = client.request('fs/readFile', { path: `file://${folder}/large` });
    await expect(read).rejects.toThrow('maxResponseBytes');
    const requests = (await scrape()).get('exec_server_requests_total');
    expect(requests).toEqual([
      expect.objectContaining({ labels: { method: 'fs/readFile', result: 'error' }, value: 1 }),
    ]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('creates no series for unknown methods', async () => {
  server = await startServer({ metrics: true });
  const client = await server.connect();
  await client.request('made/up').catch(() => {});
  const response = await fetch(metricsUrl());
  expect(await response.text()).not.toContain('made/up');
});

test('requires a token of scrapers where clients need one; refuses browsers and other HTTP methods', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'metrics-'));
  try {
    const wsTokenFile = join(folder, 'token');
    writeFileSync(wsTokenFile, 'open sesame');
    server = await startServer({ metrics: true, wsAuth: 'capability-token', wsTokenFile });
    const authorization = 'Bearer open sesame';
    expect((await fetch(metricsUrl())).status).toBe(401);
    expect((await fetch(metricsUrl(), { headers: { authorization: 'Bearer wrong' } })).status).toBe(401);
    expect((await fetch(metricsUrl(), { headers: { authorization, origin: 'http://x' } })).status).toBe(403);
    expect((await fetch(metricsUrl(), { method: 'POST', headers: { authorization } })).status).toBe(405);
    await expect(TestClient.connect(server.url)).rejects.toThrow();
    const samples = await scrape({ authorization });
    // Two scrapers and a client.
    expect(value(samples, 'exec_server_refusals_total', { cause: 'http 401' })).toBe(3);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
