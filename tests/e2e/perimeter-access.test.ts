import { createHash } from 'node:crypto';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, onTestFinished, test } from 'vitest';
import { ensureReference, startReference } from '../../scripts/reference.mjs';
import { ExecServerClient } from '../../src/client/client.ts';
import { type ServerProcess, startServerProcess, TestClient } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';
import { webServer } from '../support/web-servers.ts';
import { Workspace } from '../unit/cli/run-cli.ts';

const cli = new Workspace();
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'perimeter-access-')));
const servers: ServerProcess[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});
afterAll(() => {
  cli.close();
  rmSync(folder, { recursive: true, force: true });
});

const skipped = await ensureReference().then(
  () => null,
  (error: Error) => error.message,
);

async function start(...flags: string[]): Promise<ServerProcess> {
  const server = await startServerProcess(flags);
  servers.push(server);
  return server;
}

/** Runs `exec-server token` and returns what it prints. */
async function mint(...args: string[]): Promise<Record<string, string>> {
  const { code, stdout, stderr } = await cli.run(['token', ...args, '--json']);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
}

async function connect(url: string, token: string, handshake = true): Promise<TestClient> {
  const client = await TestClient.connect(url, { authorization: `Bearer ${token}` });
  onTestFinished(() => client.close());
  if (handshake) await client.handshake();
  return client;
}

function status(url: string, host: string): Promise<number> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, path: '/readyz', headers: { host } }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on('error', reject);
    sent.end();
  });
}

/** A server that accepts signed tokens, and a function that creates them. */
async function signedServer(flags: string[] = [], env: Record<string, string> = {}) {
  const secret = join(mkdtempSync(join(folder, 'secret-')), 'secret');
  await mint('--out', secret);
  const auth = ['--ws-auth', 'signed-bearer-token', '--ws-shared-secret-file', secret];
  const server = await startServerProcess([...auth, ...flags], env);
  servers.push(server);
  const sign = async (...args: string[]) => (await mint('signed', '--secret-file', secret, ...args)).token!;
  return { server, sign };
}

const FORBIDDEN = { code: -32003 };

test('a public address needs tokens or --insecure-no-auth', async () => {
  const refused = await cli.run(['--listen', 'ws://0.0.0.0:0']);
  expect(refused).toMatchObject({ code: 1, stdout: '' });
  expect(refused.stderr).toMatch(/ws:\/\/0\.0\.0\.0:0 .*--ws-auth capability-token.*--insecure-no-auth/);
  const server = await start('--listen', 'ws://0.0.0.0:0', '--insecure-no-auth');
  const client = await TestClient.connect(server.url.replace('0.0.0.0', '127.0.0.1'));
  await client.close();
});

test('refuses tokens on stdio', async () => {
  const { sha256 } = await mint();
  const flags = ['--ws-auth', 'capability-token', '--ws-token-sha256', sha256!];
  expect(await cli.run(['--listen', 'stdio', ...flags])).toMatchObject({
    code: 1,
    stderr: 'exec-server: WebSocket auth requires a WebSocket listener, not stdio\n',
  });
});

test.skipIf(skipped !== null)('the reference serves every client on every address', async () => {
  const reference = await startReference({ args: ['--listen', 'ws://0.0.0.0:0'] });
  onTestFinished(() => reference.stop());
  const client = await TestClient.connect(reference.url!.replace('0.0.0.0', '127.0.0.1'));
  await client.handshake();
  await client.close();
});

test('accepts a capability token, and logs neither it nor a wrong one', async () => {
  const file = join(folder, 'capability');
  await mint('--out', file);
  const token = readFileSync(file, 'utf8').trim();
  const server = await start(
    '--ws-auth',
    'capability-token',
    '--ws-token-file',
    file,
    '--log-level',
    'debug',
  );
  for (const wrong of [token.toLowerCase(), 'hunter2-guess']) {
    await expect(connect(server.url, wrong)).rejects.toMatchObject({ status: 401 });
  }
  await expect(TestClient.connect(server.url)).rejects.toMatchObject({ status: 401 });
  const client = await connect(server.url, token);
  expect(await client.call('process/start', shell('p', 'true'))).toMatchObject({ processId: 'p' });
  await client.closedProcess('p');
  expect(server.stderr()).toContain('client refused');
  expect(server.stderr()).not.toContain(token);
  expect(server.stderr()).not.toContain(token.toLowerCase());
  expect(server.stderr()).not.toContain('hunter2');
});

test('a token with the scope exec starts programs and accesses no files', async () => {
  const { server, sign } = await signedServer();
  const client = await connect(server.url, await sign('--scope', 'exec'));
  await client.call('process/start', shell('p', 'true'));
  await client.closedProcess('p');
  await expect(client.call('fs/readFile', { path: `file://${folder}` })).rejects.toMatchObject(FORBIDDEN);
});

test('a token with the scope net gets only the environment variables that the configuration lists', async () => {
  const received: (string | undefined)[] = [];
  const web = await webServer((incoming, response) => {
    received.push(incoming.headers['x-value'] as string | undefined);
    response.end();
  });
  onTestFinished(() => web.close());
  const secrets = { GITHUB_TOKEN: 'github', DATABASE_URL: 'database', WEB_TOKEN: 'web' };
  const { server, sign } = await signedServer(['--http-header-variables', 'OTHER, WEB_TOKEN'], secrets);
  const send = (client: TestClient, valueEnvVar: string) => {
    const headers = [{ name: 'x-value', value: 'v:', valueEnvVar }];
    return client.call('http/request', { requestId: 'r', method: 'GET', url: web.url, headers });
  };
  for (const scope of ['net', 'net,exec', 'net,read-only']) {
    const limited = await connect(server.url, await sign('--scope', scope));
    for (const name of ['GITHUB_TOKEN', 'DATABASE_URL', 'PATH', 'NOT_SET']) {
      await expect(send(limited, name)).rejects.toMatchObject({
        code: -32600,
        message: `http/request header x-value cannot use executor environment variable ${name}: the token has limits, and httpHeaderVariables does not list the variable`,
      });
    }
    await expect(send(limited, 'WEB_TOKEN')).resolves.toMatchObject({ status: 200 });
  }
  const full = await connect(server.url, await sign());
  await expect(send(full, 'GITHUB_TOKEN')).resolves.toMatchObject({ status: 200 });
  expect(received).toEqual(['v:web', 'v:web', 'v:web', 'v:github']);
});

test('a read-only token for a directory reads there and can do nothing else', async () => {
  const allowed = join(folder, 'allowed');
  mkdirSync(join(allowed, 'inner'), { recursive: true });
  writeFileSync(join(allowed, 'inner/file'), 'inside');
  writeFileSync(join(folder, 'outside'), 'outside');
  symlinkSync('../outside', join(allowed, 'link'));
  const { server, sign } = await signedServer();
  const client = await connect(server.url, await sign('--scope', 'read-only', '--path', allowed));
  const uri = (name: string) => ({ path: `file://${join(allowed, name)}` });

  const { dataBase64 } = await client.call('fs/readFile', uri('inner/file'));
  expect(Buffer.from(dataBase64, 'base64').toString()).toBe('inside');
  await client.call('fs/open', { ...uri('inner/file'), handleId: 'h' });
  await client.call('fs/close', { handleId: 'h' });
  const { files: hashed } = await client.call('fs/hash', { paths: [uri('inner/file').path] });
  expect(hashed).toEqual([{ sha256: createHash('sha256').update('inside').digest('hex'), size: 6 }]);
  const { entries } = await client.call('fs/readDirectory', uri('.'));
  expect(entries.map(({ fileName }) => fileName).sort()).toEqual(['inner', 'link']);

  for (const path of ['link', '../outside', '..%2Foutside', 'inner/%2e%2e/../../outside', '/etc/passwd']) {
    const params = { path: path.startsWith('/') ? `file://${path}` : `file://${allowed}/${path}` };
    await expect(client.call('fs/readFile', params)).rejects.toThrow();
    const { files } = await client.call('fs/hash', { paths: [params.path] }).catch(() => ({ files: [] }));
    expect(files.filter(({ sha256 }) => sha256 !== undefined)).toEqual([]);
    await expect(client.call('fs/open', { ...params, handleId: 'out' })).rejects.toThrow();
  }
  for (const [method, params] of [
    ['fs/writeFile', { ...uri('inner/file'), dataBase64: '' }],
    ['fs/remove', uri('inner/file')],
    ['fs/open', { ...uri('inner/new'), handleId: 'w', mode: 'replace' }],
    ['fs/search', { ...uri('.'), pattern: 'x' }],
    ['fs/watch', { ...uri('.'), watchId: 'w' }],
    ['process/start', shell('p', 'cat /etc/passwd')],
    ['command/exec', { processId: 'p', argv: ['true'], cwd: '/', env: {}, tty: false }],
  ] as const) {
    await expect(client.request(method, params)).rejects.toMatchObject(FORBIDDEN);
  }
  expect(readFileSync(join(allowed, 'inner/file'), 'utf8')).toBe('inside');
  expect(existsSync(join(allowed, 'inner/new'))).toBe(false);
});

test('a token for a directory cannot change the directory itself, leave it or make links, with any sandbox', async () => {
  const place = mkdtempSync(join(folder, 'limits-'));
  const allowed = join(place, 'allowed');
  mkdirSync(join(allowed, 'inner'), { recursive: true });
  writeFileSync(join(allowed, 'inner/file'), 'inside');
  writeFileSync(join(place, 'outside'), 'outside');
  symlinkSync('../outside', join(allowed, 'link'));
  symlinkSync('..', join(allowed, 'up'));
  const { server, sign } = await signedServer();
  const client = await connect(server.url, await sign('--scope', 'files', '--path', allowed));
  const uri = (path: string) => `file://${join(place, path)}`;
  const own = uri('allowed/inner/file');
  const copied = { sourcePath: own, destinationPath: uri('allowed/copied'), recursive: true };
  const sandboxes = {
    none: undefined,
    readOnly: { type: 'readOnly', networkAccess: false },
    write: { type: 'workspaceWrite', writableRoots: [uri('')], networkAccess: false, cwd: uri('') },
  };
  /** Each operation that changes something, at a path. */
  const changes = (path: string): readonly (readonly [string, object])[] => [
    ['fs/writeFile', { path, dataBase64: '' }],
    ['fs/createDirectory', { path, recursive: false }],
    ['fs/createDirectory', { path, recursive: true }],
    ['fs/remove', { path, recursive: true, force: true }],
    ['fs/rename', { sourcePath: path, destinationPath: uri('allowed/moved') }],
    ['fs/rename', { sourcePath: own, destinationPath: path }],
    ['fs/setAttributes', { path, mode: 0o700 }],
    ['fs/setAttributes', { path, modifiedAtMs: 1_000 }],
    ['fs/open', { path, handleId: 'replace', mode: 'replace' }],
    ['fs/open', { path, handleId: 'atomic', mode: 'atomicReplace' }],
    ['fs/createLink', { path, target: '/etc', replace: true }],
    ['fs/copy', { ...copied, sourcePath: path }],
    ['fs/copy', { ...copied, destinationPath: path }],
  ];
  const walk = { maxDepth: 1, maxDirectories: 10, maxEntries: 10, followDirectorySymlinks: true };
  const reads = (path: string): readonly (readonly [string, object])[] => [
    ['fs/readFile', { path }],
    ['fs/readDirectory', { path }],
    ['fs/getMetadata', { path }],
    ['fs/canonicalize', { path }],
    ['fs/walk', { path, options: walk }],
    ['fs/open', { path, handleId: 'read' }],
  ];
  const attempts = [
    ...[uri('allowed'), uri('allowed/up/allowed')].flatMap(changes),
    ...[uri('outside'), uri('allowed/up/outside')].flatMap((path) => [...changes(path), ...reads(path)]),
    ['fs/readFile', { path: uri('allowed/link') }],
    ['fs/writeFile', { path: uri('allowed/link'), dataBase64: '' }],
    ['fs/createLink', { path: uri('allowed/new'), target: 'inner', replace: false }],
    ['fs/copy', copied],
  ] as const;
  const refusalOf = ({ code, message }: { code: number; message: string }) =>
    code === -32602 ? message : 'refused';
  const state = () =>
    ['.', 'allowed', 'allowed/inner', 'allowed/inner/file', 'outside', 'allowed/link'].map((path) => {
      const { mode, mtimeMs, ino } = lstatSync(join(place, path));
      return [path, mode, mtimeMs, ino];
    });
  const before = state();
  for (const [name, sandbox] of Object.entries(sandboxes)) {
    for (const [method, params] of attempts) {
      const outcome = await client.request(method, { ...params, sandbox }).catch(refusalOf);
      expect([name, method, params, outcome]).toEqual([name, method, params, 'refused']);
    }
    expect(state()).toEqual(before);
  }
  // What the token allows still works in a sandbox.
  const { write: sandbox } = sandboxes;
  await client.request('fs/setAttributes', { path: own, mode: 0o600, sandbox });
  await client.request('fs/rename', { sourcePath: own, destinationPath: uri('allowed/moved'), sandbox });
  await client.request('fs/createDirectory', { path: uri('allowed/a/b'), recursive: true, sandbox });
  await client.request('fs/remove', { path: uri('allowed/a'), recursive: true, force: false, sandbox });
  expect(readdirSync(allowed).sort()).toEqual(['inner', 'link', 'moved', 'up']);
  expect(lstatSync(join(allowed, 'moved')).mode & 0o777).toBe(0o600);
});

test('files are uploaded and downloaded with a token that is limited to a directory', async () => {
  const { server, sign } = await signedServer();
  const allowed = realpathSync(mkdtempSync(join(folder, 'transfer-')));
  mkdirSync(join(folder, 'site/inner'), { recursive: true });
  writeFileSync(join(folder, 'site/inner/page'), 'text');
  const authToken = await sign('--scope', 'files', '--path', allowed);
  const client = await ExecServerClient.connect({ url: server.url, authToken });
  onTestFinished(() => client.close());
  const sent = await client.files.upload(join(folder, 'site'), join(allowed, 'site'));
  expect(sent).toMatchObject({ files: 1, directories: 2, verified: 'sha256', atomic: true });
  expect(readdirSync(join(allowed, 'site/inner'))).toEqual(['page']);
  const received = await client.files.download(join(allowed, 'site'), join(folder, 'back'));
  expect(received).toMatchObject({ files: 1, verified: 'sha256' });
  expect(readFileSync(join(folder, 'back/inner/page'), 'utf8')).toBe('text');
  const outside = client.files.upload(join(folder, 'site'), join(folder, 'elsewhere'));
  await expect(outside).rejects.toMatchObject({
    message: expect.stringContaining(join(folder, 'elsewhere')),
  });
  expect(existsSync(join(folder, 'elsewhere'))).toBe(false);
});

test('a token with fewer rights cannot resume a session, even with its id', async () => {
  const { server, sign } = await signedServer();
  const owner = await connect(server.url, await sign('--scope', 'exec'), false);
  const sessionId = await owner.handshake();
  await owner.call('process/start', shell('p', 'sleep 60'));
  await owner.drop();
  const other = await connect(server.url, await sign('--scope', 'read-only'), false);
  const resume = { clientName: 'test', resumeSessionId: sessionId };
  await expect(other.handshake(resume)).rejects.toMatchObject({ code: -32600 });
  const again = await connect(server.url, await sign('--scope', 'exec'), false);
  expect(await again.handshake(resume)).toBe(sessionId);
  await again.call('process/terminate', { processId: 'p' });
});

test('refuses a token for another environment', async () => {
  const { server, sign } = await signedServer(['--environment-id', 'build']);
  await connect(server.url, await sign('--environment', 'build'));
  await expect(connect(server.url, await sign('--environment', 'test'))).rejects.toMatchObject({
    status: 401,
  });
});

test('a connection outlives its token, except with closeOnTokenExpiry', async () => {
  const skew = ['--ws-max-clock-skew-seconds', '0'];
  const [lasting, strict] = await Promise.all([
    signedServer(skew),
    signedServer([...skew, '--close-on-token-expiry']),
  ]);
  const [stays, goes] = await Promise.all(
    [lasting, strict].map(async ({ server, sign }) => connect(server.url, await sign('--expires-in', '5s'))),
  );
  expect(await goes!.closed).toMatchObject({ code: 1008, reason: expect.stringContaining('expired') });
  expect(await stays!.call('environment/status', {})).toEqual({ status: 'ready' });
});

test('refuses a web page whose name resolves to this machine', async () => {
  const server = await start('--allowed-host', 'build.example');
  const { host } = new URL(server.url);
  expect(await status(server.url, host)).toBe(200);
  expect(await status(server.url, 'build.example')).toBe(200);
  expect(await status(server.url, 'evil.example')).toBe(421);
});

test.skipIf(skipped !== null)('the reference answers to any host name', async () => {
  const reference = await startReference();
  onTestFinished(() => reference.stop());
  expect(await status(reference.url!, 'evil.example')).toBe(200);
});
