import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, expect, test } from 'vitest';
import { MetricsListener, parseMetricsAddress } from '../../src/listener/metrics-listener.ts';
import { MetricsToken } from '../../src/listener/metrics-token.ts';
import { createLogger } from '../../src/observability/log.ts';
import { startRelay } from '../../src/relay/service/relay.ts';
import type { ServerSettings } from '../../src/server/config/config.ts';
import { type RunningServer, runServer } from '../../src/server/index.ts';
import { Workspace } from '../unit/cli/run-cli.ts';

const workspace = new Workspace();
const metricsTokenFile = workspace.file('metrics-token', 'scrape me\n');
const authorization = 'Bearer scrape me';
const ADDRESS = '127.0.0.1:0';
afterAll(() => workspace.close());

let server: RunningServer | null = null;
afterEach(async () => {
  await server?.close();
  server = null;
});

async function start(settings: ServerSettings): Promise<RunningServer> {
  server = await runServer({ logLevel: 'error', ...settings });
  return server;
}

async function status(url: string, init: RequestInit = {}): Promise<number> {
  return (await fetch(url, init)).status;
}

test('serves metrics and probes on a port of their own, which clients cannot use', async () => {
  const { url, metricsUrl } = await start({ metricsListen: ADDRESS });
  const response = await fetch(metricsUrl!);
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  expect(await response.text()).toMatch(
    /^exec_server_build_info\{component="server",version="\d[^"]*",node="\d[^"]*"\} 1$/m,
  );
  const { origin } = new URL(metricsUrl!);
  expect(await status(`${origin}/readyz`)).toBe(200);
  expect(await status(`${origin}/healthz`, { method: 'HEAD' })).toBe(200);
  expect(await status(`${origin}/`)).toBe(404);
  expect(await status(metricsUrl!, { method: 'POST' })).toBe(405);
  expect(await status(metricsUrl!, { headers: { origin: 'http://page' } })).toBe(403);
  // The listener of clients has them only with `metrics`.
  expect(await status(`${url!.replace('ws:', 'http:')}/metrics`)).toBe(404);
});

test('warns about a port that other machines reach without a token', async () => {
  const warnings = async (address: string, token: MetricsToken | null) => {
    const lines: string[] = [];
    const log = createLogger('warn', (line) => lines.push(line));
    const listener = new MetricsListener({
      address: parseMetricsAddress(address),
      token,
      log,
      isReady: () => true,
      scrape: () => '',
    });
    await listener.listen();
    await listener.close();
    return lines;
  };
  expect(await warnings('0.0.0.0:0', null)).toEqual([
    expect.stringContaining('other machines can read the metrics: add --metrics-token-file'),
  ]);
  expect(await warnings('0.0.0.0:0', new MetricsToken('scrape me'))).toEqual([]);
  expect(await warnings(ADDRESS, null)).toEqual([]);
});

test('answers an upgrade request as a plain one, and refuses foreign names on loopback', async () => {
  const { metricsUrl } = await start({ metricsListen: ADDRESS });
  const { port, pathname } = new URL(metricsUrl!);
  const firstLine = async (headers: string) => {
    const socket = connect(Number(port), '127.0.0.1');
    socket.write(`GET ${pathname} HTTP/1.1\r\n${headers}\r\n\r\n`);
    const [answer] = await once(socket, 'data');
    socket.destroy();
    return String(answer).split('\r\n')[0];
  };
  expect(await firstLine('host: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: h2c')).toBe('HTTP/1.1 200 OK');
  expect(await firstLine('host: page.example')).toBe('HTTP/1.1 421 Misdirected Request');
});

test('needs the token of metricsTokenFile on both listeners; other tokens do not count', async () => {
  const wsTokenFile = workspace.file('client-token', 'run programs');
  const { url, metricsUrl } = await start({
    metrics: true,
    metricsListen: ADDRESS,
    metricsTokenFile,
    wsAuth: 'capability-token',
    wsTokenFile,
  });
  for (const address of [metricsUrl!, `${url!.replace('ws:', 'http:')}/metrics`]) {
    expect(await status(address)).toBe(401);
    expect(await status(address, { headers: { authorization: 'Bearer run programs' } })).toBe(401);
    expect(await status(address, { headers: { authorization } })).toBe(200);
  }
  const { origin } = new URL(metricsUrl!);
  expect(await status(`${origin}/readyz`)).toBe(200);
});

test('serves them for a server without a listener', async () => {
  const { metricsUrl } = await start({ listen: 'off', metricsListen: ADDRESS });
  expect(await status(metricsUrl!)).toBe(200);
});

test.each<[string, ServerSettings, string]>([
  ['an address that is none', { metricsListen: 'metrics:9464' }, '--metrics-listen: '],
  ['a token without metrics', { metricsTokenFile }, '`--metrics-token-file` needs `--metrics`'],
  [
    'a token file that is not there',
    { metricsListen: ADDRESS, metricsTokenFile: join(workspace.path, 'missing') },
    'failed to read token of /metrics',
  ],
])('does not start with %s', async (_what, settings, problem) => {
  await expect(start(settings)).rejects.toThrow(problem);
});

test('a relay has the same listener', async () => {
  const address = { kind: 'websocket', secure: false, host: '127.0.0.1', port: 0 } as const;
  const relay = await startRelay({
    address,
    tls: null,
    secret: 'x'.repeat(32),
    store: 'memory',
    publicUrl: null,
    nodeUrl: null,
    revokedFile: null,
    auditLog: null,
    metrics: false,
    metricsAddress: address,
    metricsToken: new MetricsToken('scrape me'),
    log: createLogger('error', () => {}),
  });
  try {
    expect(await status(relay.metricsUrl!)).toBe(401);
    const response = await fetch(relay.metricsUrl!, { headers: { authorization } });
    expect(await response.text()).toContain('exec_server_build_info{component="relay"');
    expect(await status(new URL('/readyz', relay.metricsUrl!).href)).toBe(200);
  } finally {
    await relay.close();
  }
});
