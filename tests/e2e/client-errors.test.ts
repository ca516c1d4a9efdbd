import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { type ConnectOptions, connect, type ExecServerClient } from '../../src/client/index.ts';
import { stdioCommand } from '../../src/client/stdio.ts';
import { LocalEnvironment } from '../../src/environment/index.ts';
import { startServer, startServerProcess, TcpProxy } from '../../src/testing/index.ts';
import { Certificates, pem } from '../support/certificates.ts';

const certificates = new Certificates();
const authority = certificates.authority('ours');
const other = certificates.authority('other');
const own = certificates.signedBy(authority, 'own');
const elsewhere = certificates.signedBy(authority, 'elsewhere', 'DNS:elsewhere.example');
const member = certificates.signedBy(authority, 'member');
const outsider = certificates.signedBy(other, 'outsider');
const ca = readFileSync(authority.cert, 'utf8');

const closing: (() => unknown)[] = [];
afterAll(async () => {
  for (const close of closing.reverse()) await close();
  certificates.remove();
});

/** Addresses by name, without a scheme. */
const at: Record<string, string> = {};
let client: ExecServerClient;
let limited: ExecServerClient;
const local = new LocalEnvironment();
closing.push(() => local.dispose());

async function listen(name: string, server: Server): Promise<void> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  at[name] = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  closing.push(() => server.close());
}

async function serve(name: string, ...flags: string[]): Promise<void> {
  const server = await startServerProcess(flags);
  at[name] = new URL(server.url).host;
  closing.push(() => server.close());
}

beforeAll(async () => {
  const tls = (files: { readonly cert: string; readonly key: string }) => [
    ...['--listen', 'wss://127.0.0.1:0', '--tls-cert', files.cert, '--tls-key', files.key],
  ];
  const secret = certificates.path('secret');
  writeFileSync(secret, 'x'.repeat(40), { mode: 0o600 });
  const auth = ['--ws-auth', 'signed-bearer-token', '--ws-shared-secret-file', secret];
  await Promise.all([
    serve('plain'),
    serve('tls', ...tls(own)),
    serve('wrongName', ...tls(elsewhere)),
    serve('mutual', ...tls(own), '--tls-client-ca', authority.cert),
    serve('token', '--listen', 'ws://127.0.0.1:0', ...auth),
    listen(
      'page',
      createServer((_request, response) => response.end('<html>')),
    ),
    listen(
      'missing',
      createServer((_request, response) => response.writeHead(404).end()),
    ),
    listen(
      'moved',
      createServer((_request, response) =>
        response.writeHead(308, { location: 'https://new.example/' }).end(),
      ),
    ),
    listen(
      'ssh',
      createTcpServer((socket) => socket.on('error', () => {}).end('SSH-2.0-OpenSSH_9.9\r\n')),
    ),
  ]);
  const echo = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  echo.on('connection', (socket) => socket.on('message', (message) => socket.send(`you said ${message}`)));
  await new Promise((resolve) => echo.once('listening', resolve));
  at.echo = `127.0.0.1:${(echo.address() as AddressInfo).port}`;
  closing.push(() => {
    for (const socket of echo.clients) socket.terminate();
    echo.close();
  });
  client = await connect(`ws://${at.plain}`);
  const bin = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
  const args = [bin, 'token', 'signed', '--secret-file', secret, '--scope', 'read-only'];
  const token = execFileSync(process.execPath, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  limited = await connect({ url: `ws://${at.token}`, authToken: String(token).trim() });
  closing.push(
    () => client.close(),
    () => limited.close(),
  );
});

interface Explained {
  readonly kind: string;
  readonly message: RegExp;
}

const CONNECTIONS: readonly (readonly [string, () => string | ConnectOptions, Explained])[] = [
  [
    'a ws:// address of a TLS port',
    () => `ws://${at.tls}`,
    {
      kind: 'connectFailed',
      message: /closed the connection before it answered; if the server uses TLS, write wss:/,
    },
  ],
  [
    'a wss:// address of a plain port',
    () => `wss://${at.plain}`,
    { kind: 'connectFailed', message: /does not speak TLS; use ws:/ },
  ],
  [
    'an untrusted certificate',
    () => `wss://${at.tls}`,
    { kind: 'connectFailed', message: /certificate of wss:.* is not trusted: .*; pass .* as `tls\.ca`/ },
  ],
  [
    'a certificate for another name',
    () => ({ url: `wss://${at.wrongName}`, tls: { ca } }),
    { kind: 'connectFailed', message: /not trusted: .*; connect by a host name that the certificate lists/ },
  ],
  [
    'a client without the required certificate',
    () => ({ url: `wss://${at.mutual}`, tls: { ca } }),
    { kind: 'connectFailed', message: /client certificate[;,] pass .* as `tls\.cert` and `tls\.key`/ },
  ],
  [
    'a client with a certificate of another authority',
    () => ({ url: `wss://${at.mutual}`, tls: { ca, ...pem(outsider) } }),
    {
      kind: 'connectFailed',
      message:
        /(?:does not accept the client certificate: unknown ca; pass|server accepts the client certificate; otherwise)/,
    },
  ],
  [
    'a web page',
    () => `ws://${at.page}`,
    {
      kind: 'connectFailed',
      message: /a web page \(HTTP 200\) instead of a websocket; check that the address/,
    },
  ],
  [
    'a wrong path',
    () => `ws://${at.missing}/shell`,
    { kind: 'connectFailed', message: /HTTP 404; check the path/ },
  ],
  [
    'a redirect',
    () => `ws://${at.moved}`,
    {
      kind: 'connectFailed',
      message: /redirects to https:\/\/new\.example\/ \(HTTP 308\); connect to that address/,
    },
  ],
  [
    'a service that does not speak HTTP',
    () => `ws://${at.ssh}`,
    { kind: 'connectFailed', message: /does not speak HTTP; check the port/ },
  ],
  [
    'a websocket server that is no exec-server',
    () => `ws://${at.echo}`,
    {
      kind: 'protocol',
      message: /no valid answer: .*not valid JSON; check that the address is an exec-server/,
    },
  ],
  [
    'a program on stdio that is no exec-server',
    () => stdioCommand({ program: 'cat' }),
    {
      kind: 'protocol',
      message: /`initialize` got no valid answer: .*; check that the address is an exec-server/,
    },
  ],
  [
    'an http:// address',
    () => `http://${at.plain}`,
    { kind: 'config', message: /; write ws:\/\/ instead of http:/ },
  ],
  [
    'a missing token',
    () => `ws://${at.token}`,
    { kind: 'connectFailed', message: /HTTP 401; pass a token as `authToken`/ },
  ],
  [
    'a wrong token',
    () => ({ url: `ws://${at.token}`, authToken: 'wrong' }),
    { kind: 'connectFailed', message: /HTTP 401; the token is invalid or has expired/ },
  ],
  [
    'a host name that does not exist',
    () => 'ws://no-such-host.invalid',
    { kind: 'connectFailed', message: /cannot reach .*; check the host name and the network/ },
  ],
  [
    'a socket that does not exist',
    () => 'unix:///no/such/socket',
    {
      kind: 'connectFailed',
      message: /ENOENT \/no\/such\/socket; check the address and that the server is running/,
    },
  ],
];

test.each(CONNECTIONS)(
  'explains %s, with the line of the caller',
  async (_name, target, { kind, message }) => {
    const error = await connect(target()).catch((thrown: Error) => thrown);
    expect(error).toMatchObject({ name: 'ClientError', kind, message: expect.stringMatching(message) });
    expect((error as Error).stack).toContain('client-errors.test.ts');
  },
);

test('connects with the right certificate', async () => {
  const connected = await connect({ url: `wss://${at.mutual}`, tls: { ca, ...pem(member) } });
  await connected.close();
});

describe.each(['remote', 'local'])('a program that cannot start, %s,', (place) => {
  const host = () => (place === 'local' ? local : client);
  const script = certificates.path('script');
  writeFileSync(script, '#!/no/such/interpreter\n');
  chmodSync(script, 0o755);
  const locked = certificates.path('locked');
  mkdirSync(locked, { mode: 0, recursive: true });

  test.each([
    ['a missing program', ['no-such-program'], {}, 'programNotFound', /no-such-program .*; install it/],
    ['a missing path', ['/no/such'], {}, 'programNotFound', /\/no\/such does not exist; install it/],
    [
      'a missing interpreter',
      [script],
      {},
      'programNotFound',
      /script cannot run: .*; install the interpreter/,
    ],
    [
      'a missing directory',
      ['ls'],
      { cwd: '/no/such' },
      'directoryNotFound',
      /\/no\/such does not exist; create/,
    ],
    [
      'a file as directory',
      ['ls'],
      { cwd: script },
      'notDirectory',
      /script is not a directory; pass a directory as `cwd`/,
    ],
    [
      'a file that is not executable',
      [own.cert],
      {},
      'permissionDenied',
      /own\.pem is not executable; make it/,
    ],
    ['a directory as program', ['/'], {}, 'permissionDenied', /is not a regular file; make it/],
    [
      'a relative directory',
      ['ls'],
      { cwd: 'no-such' },
      'directoryNotFound',
      /\/no-such does not exist; create/,
    ],
  ])('%s', async (_name, argv, options, kind, message) => {
    for (const start of ['run', 'spawn'] as const) {
      const error = await host()
        [start](argv, options)
        .catch((thrown: Error) => thrown);
      expect(error).toMatchObject({ name: 'ClientError', kind, message: expect.stringMatching(message) });
      expect((error as Error).stack).toContain('client-errors.test.ts');
    }
  });

  test.skipIf(process.getuid?.() === 0)('a directory that the user of the server may not enter', async () => {
    const message = expect.stringMatching(/locked is not accessible; let the user/);
    await expect(host().run(['ls'], { cwd: locked })).rejects.toMatchObject({
      kind: 'permissionDenied',
      message,
    });
  });

  test('a write to a program without stdin names the option', async () => {
    const process = await host().spawn(['sleep', '600']);
    const error = await process.write('x').catch((thrown: Error) => thrown);
    expect(error).toMatchObject({
      kind: 'invalidInput',
      message: expect.stringContaining('`pipeStdin: true`'),
    });
    expect((error as Error).stack).toContain('client-errors.test.ts');
    await process.kill();
  });
});

test('a token without the scope is a missing permission', async () => {
  await expect(limited.run(['ls'])).rejects.toMatchObject({
    kind: 'permissionDenied',
    message: expect.stringMatching(/does not allow process\/start: it needs the scope .*exec.*; use a token/),
  });
});

test('calls, writes and waits that fail show the line of the caller', async () => {
  const server = await startServer();
  const proxy = await TcpProxy.open(server.url);
  const lost = await connect({ url: proxy.url, recoveryWindowMs: 0 });
  const process = await lost.spawn(['cat'], { pipeStdin: true });
  const expectCaller = async (call: () => Promise<unknown>) => {
    const error = await thrownBy(call);
    expect(error).toMatchObject({ name: 'ClientError' });
    expect((error as Error).stack).toContain('client-errors.test.ts');
  };
  await expectCaller(() => lost.call('process/read', { processId: 'unknown' }));
  await expectCaller(() => process.wait({ timeoutMs: 5 }));
  await expectCaller(() => process.signal('SIGNOPE'));
  const waiting = expectCaller(() => process.wait());
  proxy.drop();
  await waiting;
  await expectCaller(() => process.write('x'));
  await expectCaller(() => lost.run(['ls']));
  await expectCaller(() => lost.call('environment/status', null));
  await lost.close();
  await proxy.close();
  await server.close();
});

async function thrownBy(call: () => Promise<unknown>): Promise<unknown> {
  try {
    await call();
  } catch (error) {
    return error;
  }
  return null;
}
