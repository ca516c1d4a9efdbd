import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { webSocketTransport } from '../../src/client/connection/open-websocket.ts';
import { METHODS, type Method } from '../../src/protocol/registry.ts';
import type { ServerSettings } from '../../src/server/config/config.ts';
import { type RunningServer, runServer } from '../../src/server/serve.ts';
import { TestClient } from '../../src/testing/index.ts';
import { Certificates, pem } from '../support/certificates.ts';
import { ConsoleBrowser, closeCode, outputThrough } from '../support/console-browser.ts';
import { Workspace } from '../unit/cli/run-cli.ts';

const folder = mkdtempSync(join(tmpdir(), 'console-'));
const cli = new Workspace();
let server: RunningServer;
let plain: RunningServer;
beforeAll(async () => {
  server = await runServer({ console: true, logLevel: 'error', auditLog: join(folder, 'audit.jsonl') });
  plain = await runServer({ logLevel: 'error' });
});
afterAll(async () => {
  await Promise.all([server.close(), plain.close()]);
  cli.close();
  rmSync(folder, { recursive: true });
});

const origin = ({ url }: RunningServer) => url!.replace('ws:', 'http:');

async function started(settings: ServerSettings): Promise<RunningServer> {
  const running = await runServer({ console: true, logLevel: 'error', ...settings });
  onTestFinished(() => running.close());
  return running;
}

/** A browser that was signed in with a link of the server. */
function signedIn(): Promise<ConsoleBrowser> {
  return ConsoleBrowser.open(server.consoleLink()!);
}

/** A browser that was signed in with a link that a client asked for. */
async function linked(
  { url }: RunningServer,
  { readOnly = false, token = '' }: { readOnly?: boolean; token?: string } = {},
): Promise<ConsoleBrowser> {
  const browser = new ConsoleBrowser(url!.replace('ws:', 'http:'));
  const authorization = token && `Bearer ${token}`;
  const { json } = await browser.post('code', { readOnly }, { origin: '', authorization });
  expect((await browser.signIn(String(json.code))).status).toBe(200);
  return browser;
}

/** A client on a websocket of the page. */
async function clientOf(browser: ConsoleBrowser): Promise<TestClient> {
  const client = new TestClient(webSocketTransport(await browser.connect(await browser.ticket())));
  onTestFinished(() => client.close());
  await client.handshake();
  return client;
}

const program = (processId: string, ...argv: string[]) => ({
  processId,
  argv,
  cwd: pathToFileURL(folder).href,
  env: { PATH: '/usr/bin:/bin' },
  tty: false,
});

/** Sends a request and returns all that is answered, without the date. */
async function raw({ url }: RunningServer, head: string): Promise<string> {
  const { hostname, port } = new URL(url!);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.write(head.replaceAll('\n', '\r\n').replace('HOST', `${hostname}:${port}`));
  let text = '';
  socket.on('data', (piece) => {
    text += piece;
  });
  await once(socket, 'close');
  return text.replace(/^date: .*\r\n/im, '');
}

describe('without --console', () => {
  const UPGRADE = `Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: ${'A'.repeat(22)}==\n`;

  test.each([
    ['GET', '', 'Connection: close\n'],
    ['GET', '', 'Connection: close\nOrigin: http://127.0.0.1\n'],
    ['POST', '/sign-in', 'Connection: close\nContent-Length: 0\n'],
    ['POST', '/code', 'Connection: close\nContent-Length: 0\n'],
    ['GET', '/connect', UPGRADE],
    ['GET', '/connect', `Origin: http://evil.example\n${UPGRADE}`],
  ])('%s /console%s is answered like any unknown path', async (method, path, headers) => {
    const [console, unknown] = await Promise.all(
      ['/console', '/nothing'].map((start) =>
        raw(plain, `${method} ${start}${path} HTTP/1.1\nHost: HOST\n${headers}\n`),
      ),
    );
    expect(console).toMatch(headers.includes('Origin') ? /^HTTP\/1.1 403 / : /^HTTP\/1.1 404 /);
    expect(console).toBe(unknown);
  });

  test('there is no link', () => {
    expect(plain.consoleLink()).toBeNull();
  });
});

describe('with --console', () => {
  test('a browser runs a program', async () => {
    const browser = await signedIn();
    const client = await clientOf(browser);
    await client.call('process/start', program('p', 'echo', 'hello'));
    const events = await client.closedProcess('p');
    expect(Buffer.from(events.bytes('stdout')).toString()).toBe('hello\n');
  });

  test('other paths are answered as without it', async () => {
    const requests = [
      'GET / HTTP/1.1\nHost: HOST\nConnection: close\n\n',
      'GET /consoles HTTP/1.1\nHost: HOST\nConnection: close\n\n',
      'GET /readyz HTTP/1.1\nHost: HOST\nConnection: close\nOrigin: http://evil.example\n\n',
      'GET /console/ HTTP/1.1\nHost: evil.example\nConnection: close\n\n',
    ];
    for (const request of requests) expect(await raw(server, request)).toBe(await raw(plain, request));
  });

  test("the page's Origin opens no websocket but the console's", async () => {
    await expect(TestClient.connect(server.url!, { origin: origin(server) })).rejects.toThrow('403');
  });

  test('signing out ends the connection', async () => {
    const browser = await signedIn();
    const socket = await browser.connect(await browser.ticket());
    const code = closeCode(socket);
    expect((await browser.post('sign-out')).status).toBe(204);
    expect(await code).toBe(4401);
  });

  test('the end of the server ends the connection', async () => {
    const ending = await started({});
    const browser = await ConsoleBrowser.open(ending.consoleLink()!);
    const code = closeCode(await browser.connect(await browser.ticket()));
    await ending.close();
    expect(await code).toBe(1001);
  });

  test('facts about the machine have limits, metrics and the tail of the audit log', async () => {
    const facts = (await (await signedIn()).get('machine')).json;
    expect(facts).toMatchObject({
      checks: ['control groups', 'ripgrep', 'bash', 'zsh'].map((name) => ({ name })),
      limits: expect.arrayContaining([
        { name: 'maxConnections', value: '1024', isDefault: true, description: expect.any(String) },
      ]),
      metrics: { connections: expect.any(Number), memoryBytes: expect.any(Number) },
      audit: expect.arrayContaining([expect.objectContaining({ event: 'opened' })]),
    });
    expect((await (await linked(server, { readOnly: true })).get('machine')).json).toMatchObject({
      metrics: null,
      audit: null,
    });
  });

  test('over TLS, serves browsers with the client certificate that the server demands, and a Secure cookie', async () => {
    const certificates = new Certificates();
    onTestFinished(() => certificates.remove());
    const authority = certificates.authority('console');
    const own = certificates.signedBy(authority, 'server');
    const secure = await started({
      listen: 'wss://127.0.0.1:0',
      tlsCert: own.cert,
      tlsKey: own.key,
      tlsClientCa: authority.cert,
    });
    const ca = pem(authority).cert;
    const link = secure.consoleLink()!;
    expect(link).toMatch(/^https:/);
    await expect(ConsoleBrowser.open(link, { ca })).rejects.toThrow();
    const tls = { ca, ...pem(certificates.signedBy(authority, 'person')) };
    const browser = await ConsoleBrowser.open(link, tls);
    expect(browser.cookie).toMatch(/^__Secure-/);
    expect((await browser.get('')).headers['content-security-policy']).toContain('wss://127.0.0.1:');
    expect(await outputThrough(browser, ['echo', 'over TLS'])).toBe('over TLS\n');
  });

  test.each([
    [
      'a listener that browsers cannot reach',
      { listen: 'unix:///tmp/x.sock' },
      '`--console` needs a `ws://`',
    ],
    ['any Host', { allowedHost: 'a, *' }, '`--console` needs the names of this server'],
  ])('a server with %s does not start', async (_, settings, problem) => {
    await expect(runServer({ console: true, ...settings })).rejects.toThrow(problem);
  });
});

/** A request for each method that changes something or reaches the network. */
const CHANGES: Partial<Record<Method, object>> = (() => {
  const path = pathToFileURL(join(folder, 'kept')).href;
  const other = pathToFileURL(join(folder, 'other')).href;
  const [processId, streamId, requestId, watchId] = ['victim', 's', 'r', 'w'];
  return {
    'process/start': program('mine', 'touch', join(folder, 'other')),
    'process/write': { processId, chunk: 'eA==' },
    'process/signal': { processId, signal: 'interrupt' },
    'process/terminate': { processId },
    'process/closeStdin': { processId },
    'process/resize': { processId, rows: 5, cols: 5 },
    'process/consumed': { processId, seq: 1 },
    'process/forget': { processId },
    'process/setLifetime': { processId, lifetime: { type: 'detached' } },
    'tcp/connect': { streamId, port: 1 },
    'tcp/data': { streamId, chunk: 'eA==' },
    'tcp/end': { streamId },
    'tcp/close': { streamId },
    'tcp/consumed': { streamId, bytes: 1 },
    'ports/watch': { watchId },
    'ports/unwatch': { watchId },
    'fs/open': { handleId: 'h', path, mode: 'replace' },
    'fs/writeFile': { path, dataBase64: 'eA==' },
    'fs/createDirectory': { path: other },
    'fs/remove': { path },
    'fs/copy': { sourcePath: path, destinationPath: other, recursive: false },
    'fs/rename': { sourcePath: path, destinationPath: other },
    'fs/setAttributes': { path, mode: 0o777 },
    'fs/createLink': { path: other, target: 'kept' },
    'fs/writeBlock': { handleId: 'h', offset: 0, chunk: 'eA==' },
    'http/request': { requestId, method: 'GET', url: 'http://127.0.0.1:1/' },
    'http/cancel': { requestId },
    'http/consumed': { requestId, bytes: 1 },
    'command/exec': { ...program('mine', 'touch', join(folder, 'other')) },
    'command/exec/write': { processId, chunk: 'eA==' },
    'command/exec/terminate': { processId },
  };
})();

/** Starts a program that others must not end, and returns its reference. */
async function victim(owner: TestClient): Promise<string> {
  await owner.call('process/start', program('victim', 'sleep', '1000'));
  const { processes } = await owner.call('process/list', {});
  return String(processes.find(({ processId }) => processId === 'victim')?.ref);
}

/** Tries everything that a viewer must not do. Returns what was not refused. */
async function notRefused(client: TestClient, ref: string): Promise<string[]> {
  const attempts: [string, object][] = [
    ...Object.entries(CHANGES),
    ['process/attach', { ref, role: 'driver', takeOver: true }],
  ];
  const answers = attempts.map(async ([method, params]) => {
    const used =
      'processId' in params && params.processId === 'victim' ? { ...params, processId: ref } : params;
    const error = await client.request(method, used).then(
      () => null,
      (reason: { code: number }) => reason,
    );
    return error?.code === FORBIDDEN ? [] : [method];
  });
  return (await Promise.all(answers)).flat();
}

const FORBIDDEN = -32003;

describe('a viewer', () => {
  test('is tried with every method that needs a right to change something', () => {
    const needed = Object.entries(METHODS)
      .filter(([, { needs }]) => ['exec', 'files.write', 'net'].includes(needs))
      .map(([method]) => method);
    expect(needed.filter((method) => !(method in CHANGES))).toEqual([]);
  });

  test('of a read-only link changes nothing by any method, and sees programs and files', async () => {
    writeFileSync(join(folder, 'kept'), 'as it was', { mode: 0o600 });
    const owner = await clientOf(await signedIn());
    const ref = await victim(owner);
    const browser = await linked(server, { readOnly: true });
    expect((await browser.get('session')).json).toMatchObject({
      readOnly: true,
      scopes: { exec: false, observe: true, files: 'read', net: false, metrics: false },
    });
    const viewer = await clientOf(browser);
    const before = readdirSync(folder);
    expect(await notRefused(viewer, ref)).toEqual([]);
    expect(readdirSync(folder)).toEqual(before);
    expect(readFileSync(join(folder, 'kept'), 'utf8')).toBe('as it was');
    const { processes } = await viewer.call('process/list', { scope: 'server' });
    expect(processes.map((process) => process.ref)).toContain(ref);
    expect(await viewer.call('process/attach', { ref })).toMatchObject({ role: 'viewer', exitCode: null });
    const path = pathToFileURL(join(folder, 'kept')).href;
    const { dataBase64 } = await viewer.call('fs/readFile', { path });
    expect(Buffer.from(dataBase64, 'base64').toString()).toBe('as it was');
  });

  test('cannot take over the session of a client with more rights', async () => {
    const browser = await signedIn();
    const owner = new TestClient(webSocketTransport(await browser.connect(await browser.ticket())));
    const resumeSessionId = await owner.handshake({ clientName: 'owner', detachedSessionTtlMs: 60_000 });
    await owner.close();
    const socket = await (async () => {
      const reader = await linked(server, { readOnly: true });
      return reader.connect(await reader.ticket());
    })();
    const viewer = new TestClient(webSocketTransport(socket));
    onTestFinished(() => viewer.close());
    await expect(viewer.request('initialize', { clientName: 'v', resumeSessionId })).rejects.toThrow();
  });

  test('a client can give up its rights itself', async () => {
    const client = await TestClient.connect(server.url!);
    onTestFinished(() => client.close());
    const { environmentInfo } = await client.call('initialize', {
      clientName: 'test',
      capabilities: { readOnly: true },
    });
    client.notify('initialized', {});
    expect(environmentInfo?.capabilities?.readOnlyConnections).toBe(true);
    const owner = await clientOf(await signedIn());
    expect(await notRefused(client, await victim(owner))).toEqual([]);
  });
});

describe('with tokens', () => {
  test('a browser has the rights of the token of its link, and loses them with the token', async () => {
    const secret = cli.file('secret', 'x'.repeat(40));
    const revoked = cli.file('revoked', '');
    const guarded = await started({
      wsAuth: 'signed-bearer-token',
      wsSharedSecretFile: secret,
      revokedTokens: revoked,
    });
    const minted = await cli.run([
      ...['token', 'signed', '--secret-file', secret, '--scope', 'files', '--json'],
    ]);
    const { token, id } = JSON.parse(minted.stdout) as { token: string; id: string };
    const browser = new ConsoleBrowser(origin(guarded));

    expect(guarded.consoleLink()).toBeNull();
    for (const authorization of ['', 'Bearer wrong']) {
      expect((await browser.post('code', {}, { origin: '', authorization })).status).toBe(401);
    }
    const page = await linked(guarded, { token });
    expect((await page.get('session')).json).toMatchObject({
      scopes: { exec: false, observe: false, files: 'write', net: false, metrics: false },
    });
    expect((await page.get('machine')).json).toMatchObject({ metrics: null, audit: null });
    const client = await clientOf(page);
    await expect(client.call('process/start', program('p', 'true'))).rejects.toMatchObject({
      code: FORBIDDEN,
    });

    writeFileSync(revoked, `${id}\n`);
    await guarded.reload();
    expect(await client.closed).toMatchObject({ reason: 'the token has been revoked' });
    expect((await page.get('session')).json).toMatchObject({ error: 'kicked' });
    expect((await page.post('ticket')).status).toBe(401);
  });
});
