import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { get } from 'node:https';
import { join } from 'node:path';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { RELAY } from '../../src/cli/specs/relay-spec.ts';
import { SECURITY_PROFILE } from '../../src/relay/noise/suite.ts';
import { connectFrameSocket } from '../../src/transport/frame-socket.ts';
import { Certificates, pem } from '../support/certificates.ts';
import { waitFor } from '../support/wait-for.ts';
import { Workspace } from '../unit/cli/run-cli.ts';
import { Environment, post, SECRET, someKey, TestPeer } from '../unit/relay/service/relay-fixture.ts';
import { relayFolder, startNode } from './relay-nodes.ts';

const cli = new Workspace();
const secretFile = cli.file('secret', SECRET);
afterAll(() => cli.close());

test.each<[string, string[], number, RegExp]>([
  ['no secret', [], 2, /--secret-file is required/],
  ['an unknown flag', ['--frobnicate'], 2, /relay: unknown flag '--frobnicate'/],
  [
    'two of a kind',
    ['--revoked-file', 'a', '--revoked-file', 'b'],
    2,
    /--revoked-file is given more than once/,
  ],
  ['an argument', ['serve'], 2, /relay: unexpected argument 'serve'/],
  [
    'a short secret',
    ['--secret-file', cli.file('short', 'short')],
    1,
    /--secret-file \S+ must be at least 32 bytes/,
  ],
  ['a listener of another kind', ['--listen', 'unix:///tmp/x'], 2, /is not http:\/\/IP:PORT/],
  ['a name to listen on', ['--listen', 'http://example.org:1'], 2, /is not http:\/\/IP:PORT/],
  ['every address without TLS', ['--listen', 'http://0.0.0.0:0'], 1, /tokens could be read on the network/],
  [
    'every address without a URL',
    ['--listen', 'http://0.0.0.0:0', '--insecure-no-tls'],
    2,
    /needs --public-url/,
  ],
  ['https without a certificate', ['--listen', 'https://127.0.0.1:0'], 2, /needs --tls-cert and --tls-key/],
  [
    'a certificate without https',
    ['--listen', 'http://127.0.0.1:0', '--tls-cert', 'x', '--tls-key', 'x'],
    2,
    /needs --tls-cert and --tls-key/,
  ],
  ['a certificate without its key', ['--tls-cert', 'x'], 2, /needs --tls-cert and --tls-key/],
  ['a URL with a query', ['--public-url', 'https://x/?y'], 2, /--public-url: .* is not a URL like/],
  ['a websocket URL', ['--node-url', 'wss://x'], 2, /--node-url: .* is not a URL like/],
  ['an unknown store', ['--store', 'disk', '--secret-file', secretFile], 1, /--store is not one of memory/],
  ['an unknown level', ['--log-level', 'loud'], 2, /is not one of debug, info, warn, error/],
  ['no connections', ['--max-connections', '0'], 2, /is not a number of 1 or more/],
  [
    'a list that is not there',
    ['--revoked-file', '/nowhere/x', '--secret-file', secretFile],
    1,
    /cannot read the list of revoked tokens .*\(--revoked-file\)/,
  ],
])('rejects %s', async (_what, flags, code, message) => {
  const outcome = await cli.run(['relay', ...flags]);
  expect([outcome.code, outcome.stdout]).toEqual([code, '']);
  expect(outcome.stderr).toMatch(message);
});

test('reports a port that is in use, and exits', async () => {
  const node = await startNode(relayFolder());
  const outcome = await cli.run(['relay', '--secret-file', secretFile, '--listen', node.url]);
  expect([outcome.code, outcome.stdout]).toEqual([1, '']);
  expect(outcome.stderr).toContain(
    `cannot listen on ${node.url}: the port is in use (choose another, or 0 for a free one)`,
  );
});

const TOKEN_COMMAND = ['relay', 'token', '--secret-file', secretFile] as const;

async function mint(...args: string[]): Promise<Record<string, string>> {
  const { code, stdout, stderr } = await cli.run([...TOKEN_COMMAND, ...args, '--json']);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
}

test('prints a token alone on stdout and its details on stderr', async () => {
  const { code, stdout, stderr } = await cli.run([...TOKEN_COMMAND, '--role', 'metrics', '--id', 'ci']);
  expect([code, stderr]).toEqual([0, 'id: ci\nexpires: never\n']);
  expect(stdout).toMatch(/^[\w.-]{40,}\n$/);
});

test('created tokens work for their role and environment', async () => {
  const { url } = await startNode(relayFolder());
  const executor = await mint('--role', 'executor', '--environment', 'env-1', '--id', 'ci');
  expect([executor.id, executor.expires]).toEqual(['ci', null]);
  const file = join(cli.path, 'harness-token');
  await mint('--role', 'harness', '--environment', 'env-1', '--expires-in', '1h', '--out', file);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const environment = Object.assign(new Environment(url), {
    executorToken: executor.token,
    harnessToken: readFileSync(file, 'utf8').trim(),
  });
  const socket = await environment.executor();
  const harness = await environment.harness();
  harness.resume('s');
  await socket.hasReceived(1);
  const other = await post(`${url}/cloud/environment/env-2/register`, executor.token!, {});
  expect(other.status).toBe(403);
});

test.each<[string[], RegExp]>([
  [[], /--role is required/],
  [['--role', 'admin'], /--role must be one of executor, harness, metrics/],
  [['--role', 'executor'], /--environment is required/],
  [
    ['--role', 'executor', '--environment', 'a b'],
    /--environment: 'a b' is not an id; an id has 1 to 64 letters, digits, _ and -/,
  ],
  [['--role', 'metrics', '--environment', 'e'], /--environment is only for the roles executor and harness/],
  [['--role', 'metrics', '--expires-in', '30'], /'30' is not a time.*\nTry 'exec-server relay --help'/],
  [['--role', 'metrics', '--id', 'a b'], /--id may have up to 64/],
])('rejects token %j', async (flags, message) => {
  const outcome = await cli.run(['relay', 'token', '--secret-file', secretFile, ...flags]);
  expect([outcome.code, outcome.stdout]).toEqual([2, '']);
  expect(outcome.stderr).toMatch(message);
});

test('the documentation mentions only existing flags', () => {
  const documentation = readFileSync(new URL('../../docs/guides/relay.md', import.meta.url), 'utf8');
  const commands = documentation.split('\n').filter((line) => line.includes('exec-server relay --'));
  expect(commands.length).toBeGreaterThan(3);
  for (const flag of commands.join(' ').match(/--[a-z-]+/g) ?? [])
    expect(RELAY.flags).toHaveProperty(flag.slice(2));
});

test('keeps registrations in a file store after being killed', async () => {
  const folder = relayFolder();
  const store = `file://${folder}/registrations`;
  const first = await startNode(folder, '--store', store);
  const { port } = new URL(first.url);
  const environment = new Environment(first.url);
  const { url } = (await environment.register(someKey())).body;
  const executor = await TestPeer.connect(url);
  await waitFor('the file', () => statSync(join(folder, 'registrations')).size > 0);
  await first.stop('SIGKILL');
  await executor.hasClosed();
  await startNode(folder, '--store', store, '--listen', `http://127.0.0.1:${port}`);
  await TestPeer.connect(url);
  await environment.harness();
});

test('a second relay refuses to start with the same file until the first has ended', async () => {
  const folder = relayFolder();
  const store = `file://${folder}/registrations`;
  const first = await startNode(folder, '--store', store);
  const outcome = await cli.run(['relay', '--secret-file', secretFile, '--store', store]);
  expect([outcome.code, outcome.stdout]).toEqual([1, '']);
  expect(outcome.stderr).toContain(
    `cannot keep registrations in ${folder}/registrations: another relay uses it. Stop that relay, or let both share a redis://HOST:PORT store`,
  );
  await first.stop('SIGKILL');
  await startNode(folder, '--store', store);
});

test('asks executors to register again without a file store', async () => {
  const folder = relayFolder();
  const first = await startNode(folder);
  const { url } = (await new Environment(first.url).register(someKey())).body;
  await first.stop('SIGTERM');
  await startNode(folder, '--listen', first.url);
  await expect(connectFrameSocket(url)).rejects.toMatchObject({ status: 401 });
});

test('serves TLS and reloads the certificate', async () => {
  const certificates = new Certificates();
  onTestFinished(() => certificates.remove());
  const [authority, other] = [certificates.authority('one'), certificates.authority('two')];
  const files = certificates.signedBy(authority, 'relay');
  const folder = relayFolder();
  const flags = ['--listen', 'https://127.0.0.1:0', '--tls-cert', files.cert, '--tls-key', files.key];
  const node = await startNode(folder, ...flags);
  expect(node.url).toMatch(/^https:/);
  const probe = (ca: string) =>
    new Promise<number>((resolve) => {
      get(`${node.url}/healthz`, { ca, agent: false }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      }).on('error', () => resolve(0));
    });
  const [ca, otherCa] = [pem(authority).cert, pem(other).cert];
  expect([await probe(ca), await probe(otherCa)]).toEqual([200, 0]);
  const renewed = certificates.signedBy(other, 'renewed');
  writeFileSync(files.cert, readFileSync(renewed.cert));
  writeFileSync(files.key, readFileSync(renewed.key));
  node.signal('SIGHUP');
  await waitFor('the new certificate', async () => (await probe(otherCa)) === 200);
});

test('shuts down gracefully on the first signal, with a complete audit log', async () => {
  const folder = relayFolder();
  const auditLog = join(folder, 'audit');
  const node = await startNode(folder, '--audit-log', auditLog);
  const environment = new Environment(node.url);
  await environment.executor();
  await post(`${environment.url}/connect`, 'guess', {});
  expect(await node.stop('SIGTERM')).toBe(0);
  const outcome = await cli.run(['audit', 'verify', auditLog]);
  expect(outcome.code).toBe(0);
  const events = readFileSync(auditLog, 'utf8').trimEnd().split('\n');
  expect(events.map((line) => JSON.parse(line).event)).toEqual([
    'opened',
    'register',
    'socketOpened',
    'connectionRejected',
    'socketClosed',
    'closed',
  ]);
  rmSync(auditLog);
});

test('reads the store from an environment variable', async () => {
  const outcome = await cli.run(['relay', '--secret-file', secretFile], {
    EXEC_SERVER_RELAY_STORE: 'nothing',
  });
  expect(outcome.stderr).toMatch(/--store is not one of memory/);
});

const METRICS_URL = /http:\/\/[^"\s]*\/metrics/;

test('serves metrics with a token of their own, and to tokens with the role metrics', async () => {
  const folder = relayFolder();
  writeFileSync(join(folder, 'scraper'), 'scrape me');
  const listener = ['--metrics-listen', '127.0.0.1:0', '--metrics-token-file', join(folder, 'scraper')];
  const node = await startNode(folder, '--metrics', ...listener);
  await waitFor('the listener', () => METRICS_URL.test(node.stderr()));
  const [url] = METRICS_URL.exec(node.stderr())!;
  expect(new URL(url).port).not.toBe(new URL(node.url).port);
  const { token: scraper } = await mint('--role', 'metrics');
  const read = async (address: string, bearer: string) => {
    const response = await fetch(address, { headers: { authorization: `Bearer ${bearer}` } });
    return [response.status, (await response.text()).includes('exec_server_build_info{component="relay"')];
  };
  expect(await read(url, 'scrape me')).toEqual([200, true]);
  expect(await read(`${node.url}/metrics`, scraper!)).toEqual([200, true]);
  expect([await read(url, scraper!), await read(`${node.url}/metrics`, 'scrape me')]).toEqual([
    [401, false],
    [401, false],
  ]);
});

test('refuses revoked tokens, also those that it learns of from SIGHUP, and more connections than allowed', async () => {
  const folder = relayFolder();
  const [executor, other] = [
    await mint('--role', 'executor', '--environment', 'env-1', '--id', 'one'),
    await mint('--role', 'executor', '--environment', 'env-1', '--id', 'two'),
  ];
  const revoked = join(folder, 'revoked');
  writeFileSync(revoked, 'one\n');
  // A proxy in front of it would provide TLS.
  const open = ['--listen', 'http://0.0.0.0:0', '--insecure-no-tls', '--public-url', 'http://127.0.0.1'];
  const node = await startNode(folder, ...open, '--revoked-file', revoked, '--max-connections', '1');
  const port = await waitFor('its port', () => /"port":(\d+)/.exec(node.stderr())?.[1]);
  const register = (token: string) =>
    post(`http://127.0.0.1:${port}/cloud/environment/env-1/register`, token, {
      security_profile: SECURITY_PROFILE,
      executor_public_key: someKey(),
    });
  expect((await register(executor.token!)).status).toBe(401);
  const { status, body } = await register(other.token!);
  expect(status).toBe(200);
  const url = body.url.replace(/127\.0\.0\.1(?=\/)/, `127.0.0.1:${port}`);
  const connected = await TestPeer.connect(url);
  await expect(connectFrameSocket(url)).rejects.toMatchObject({ status: 503 });
  writeFileSync(revoked, 'one\ntwo\n');
  node.signal('SIGHUP');
  await connected.hasClosed();
  expect((await register(other.token!)).status).toBe(401);
});
