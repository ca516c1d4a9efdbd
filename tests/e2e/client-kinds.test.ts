import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { serverErrorKind } from '../../src/client/connection/error-kinds.ts';
import {
  type ClientErrorKind,
  connect,
  type ExecProcess,
  type ExecServerClient,
} from '../../src/client/index.ts';
import { stdioCommand } from '../../src/client/stdio.ts';
import { signToken } from '../../src/server/auth/signed-token.ts';
import { startServer } from '../../src/testing/index.ts';

const SECRET = 'a secret of more than thirty-two bytes';
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'client-kinds-')));
const closing: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const close of closing.reverse()) await close();
  rmSync(folder, { recursive: true, force: true });
});

let client: ExecServerClient;
let other: ExecServerClient;
/** A client of a server with limits and restrictions. */
let limited: ExecServerClient;
/** A client whose token is limited to the folder. */
let below: ExecServerClient;
let sleeper: ExecProcess;
let viewed: ExecProcess;

async function serve(settings: object, ...options: object[]): Promise<ExecServerClient[]> {
  const server = await startServer(settings);
  closing.push(() => server.close());
  const clients = await Promise.all(options.map((more) => connect({ url: server.url, ...more })));
  for (const connected of clients) closing.push(() => connected.close());
  return clients;
}

beforeAll(async () => {
  const wsSharedSecretFile = join(folder, 'secret');
  writeFileSync(wsSharedSecretFile, SECRET);
  const exp = Math.floor(Date.now() / 1_000) + 600;
  const claims = { exp, sub: 'ann', exec_server: { scopes: ['files'], path: folder } };
  const authToken = signToken(claims, SECRET);
  [[client, other], [limited], [below]] = (await Promise.all([
    serve({}, {}, {}),
    serve({ maxProcessesPerConnection: 1, httpDeniedHosts: 'denied.example' }, {}),
    serve({ wsAuth: 'signed-bearer-token', wsSharedSecretFile }, { authToken }),
  ])) as [[ExecServerClient, ExecServerClient], [ExecServerClient], [ExecServerClient]];
  sleeper = await client.spawn(['sleep', '600'], { processId: 'sleeper', name: 'taken' });
  await limited.spawn(['sleep', '600']);
  viewed = await other.attach('taken');
});

const start = (processId: string, more: object = {}) => ({
  ...{ processId, argv: ['true'], cwd: 'file:///', env: {}, tty: false, ...more },
});

const ANSWERS: readonly [string, () => Promise<unknown>, ClientErrorKind, number][] = [
  ['an unknown process', () => client.call('process/read', { processId: 'x' }), 'notFound', -32600],
  ['an unknown process to attach to', () => client.attach('no-such'), 'notFound', -32004],
  ['an id that is in use', () => client.call('process/start', start('sleeper')), 'conflict', -32600],
  ['a name that is in use', () => other.spawn(['true'], { name: 'taken' }), 'conflict', -32600],
  [
    'a start under the id of an attachment',
    () => other.spawn(['true'], { processId: viewed.ref! }),
    'invalidInput',
    0,
  ],
  ['a write of a viewer', () => viewed.write('x'), 'conflict', -32011],
  ['a signal of a viewer', () => viewed.signal('SIGHUP'), 'conflict', -32600],
  ['a second driver', () => other.attach('taken', { role: 'driver' }), 'conflict', -32011],
  ['an unknown signal', () => sleeper.signal('SIGNOPE'), 'invalidInput', -32602],
  ['the size of what is no terminal', () => sleeper.resize(1, 1), 'invalidInput', -32600],
  ['the screen of what is no terminal', () => sleeper.screen(), 'invalidInput', -32600],
  ['one process too many', () => limited.spawn(['true']), 'overloaded', -32600],
  [
    'a host that is not allowed',
    () => client.connectTcp({ host: 'a.example', port: 80 }),
    'permissionDenied',
    -32600,
  ],
  [
    'a denied host',
    () => limited.http.request({ url: 'http://denied.example/' }),
    'permissionDenied',
    -32600,
  ],
  ['a URL that is none', () => client.http.request({ url: 'nonsense' }), 'invalidInput', -32602],
  ['a file as cwd', () => client.run(['true'], { cwd: join(folder, 'secret') }), 'notDirectory', -32603],
  ['a port that nothing listens on', () => client.connectTcp({ port: 1 }), 'connectFailed', -32603],
  [
    'an argument with a NUL',
    () => client.call('process/start', start('nul', { argv: ['x', '\0'] })),
    'invalidInput',
    -32603,
  ],
  ['a missing scope', () => below.run(['true']), 'permissionDenied', -32003],
  ['a path outside the directory of the token', () => below.files.list('/etc'), 'permissionDenied', -32600],
  ['a missing file', () => client.files.read('/no/such'), 'notFound', -32004],
  ['a directory that exists', () => client.files.makeDirectory(folder, { parents: false }), 'exists', -32603],
  ['a file as a directory', () => client.files.list(join(folder, 'secret')), 'notDirectory', -32603],
  ['a pattern that is none', () => client.files.search(folder, '('), 'invalidInput', -32600],
  [
    'a value of a wrong type',
    () => client.call('process/read', { processId: 5 as never }),
    'invalidInput',
    -32602,
  ],
  ['an unknown method', () => client.call('process/nope' as 'process/list', {}), 'unsupported', -32601],
];

test.each(ANSWERS)('%s', async (_name, call, kind, code) => {
  const error = await call().catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ name: 'ClientError', kind, code: code || null });
  expect(error).toMatchObject({ retryable: kind === 'overloaded' || kind === 'connectFailed' });
});

test('an error names options of the library, and its hint is the fix', async () => {
  const include = client.files.search(folder, 'x', { include: 5 as never });
  await expect(include).rejects.toMatchObject({ message: expect.stringMatching(/: `include`: expected /) });
  const metadata = client.run(['true'], { metadata: { threadId: 'x' } });
  await expect(metadata).rejects.toMatchObject({ message: '`metadata.threadId`: expected a UUID' });
  await expect(viewed.signal('SIGHUP')).rejects.toMatchObject({
    hint: 'attach with the role `driver` first',
  });
  await expect(client.call('process/nope' as 'process/list', {})).rejects.toMatchObject({
    hint: 'update the server, or check the address',
  });
});

test('a port of this machine that is in use', async () => {
  const taken = await client.forward({ port: 1 });
  const forward = client.forward({ port: 1, localPort: taken.port });
  await expect(forward).rejects.toMatchObject({ kind: 'conflict', retryable: false });
  await taken.close();
});

test('a server on stdio that does not start', async () => {
  const source = stdioCommand({ program: '/bin/sh', args: ['-c', 'echo no such flag >&2; exit 2'] });
  await expect(connect(source)).rejects.toMatchObject({
    kind: 'spawn',
    retryable: false,
    message:
      'the server did not start: /bin/sh has ended (exit code 2): no such flag; check its program, `args` and `cwd`',
  });
});

test('an empty path is refused and changes nothing', async () => {
  const refused = { kind: 'invalidInput', message: expect.stringContaining('the path is empty') };
  const { files } = client;
  for (const call of [
    () => files.remove('', { recursive: true }),
    () => files.list(''),
    () => files.copy(folder, ''),
    () => files.hashAll(['']),
    () => files.upload('', '/no/such'),
    () => files.download(folder, ''),
    () => files.tree('').next(),
    () => files.walk('').next(),
    () => client.run(['true'], { cwd: '' }),
  ])
    await expect(call()).rejects.toMatchObject(refused);
});

test('the server refuses a mode of termination that does not exist', async () => {
  const mode = { type: 'gracefull', timeoutMs: 1 } as never;
  const call = client.call('process/terminate', { processId: 'sleeper', mode });
  await expect(call).rejects.toMatchObject({ kind: 'invalidInput', code: -32602 });
  expect(sleeper.state.exited).toBe(false);
});

test.each([{ pipeStdin: true }, { tty: true }])('a write after the end is refused, with %o', async (how) => {
  const ended = await client.spawn(['true'], how);
  await ended.wait();
  await expect(ended.write('x')).rejects.toMatchObject({ kind: 'stdinClosed' });
});

test('a handle that has been detached can do nothing', async () => {
  const left = await client.spawn(['sleep', '600'], { pipeStdin: true });
  await left.detach();
  const closed = { kind: 'closed', hint: 'attach again with `process.ref`' };
  for (const call of [
    () => left.write('x'),
    () => left.kill(),
    () => left.kill('SIGHUP'),
    () => left.closeStdin(),
    () => left.takeOver(),
  ])
    await expect(call()).rejects.toMatchObject(closed);
  await client.processes.terminate(left.ref!);
});

test('an unknown session', async () => {
  const options = { resumeSessionId: client.sessionId };
  const server = await startServer();
  const unknown = connect({ url: server.url, ...options });
  await expect(unknown).rejects.toMatchObject({ kind: 'notFound', code: -32600, retryable: false });
  await server.close();
});

/** Answers that need a machine, a load or a moment that a test does not have. The texts are those of the server. */
test.each<[string, number, ClientErrorKind]>([
  ['session 1 is already attached to another connection', -32010, 'conflict'],
  ['the server has 4 open file handles, the configured maximum (maxFileHandles)', -32600, 'overloaded'],
  ['the answer exceeds the size that the server allows', -32001, 'overloaded'],
  [
    'the server has 3 of 900 descriptors left; this session has 2 of its share of 1 (half) and needs 1 more',
    -32600,
    'overloaded',
  ],
  ['a connection may have at most 32 watches; end one with fs/unwatch first', -32600, 'overloaded'],
  ['at most 128 file handles may be open per connection', -32600, 'overloaded'],
  [
    'stdin is full: 5 bytes wait for the program to read; wait for answers before writing more',
    -32603,
    'overloaded',
  ],
  ['the process was terminated; its stdin is gone', -32603, 'stdinClosed'],
  ['process a1 exited with code 0 and closed at 2026; its output was removed at 2026', -32600, 'notFound'],
  ['process p start was cancelled', -32600, 'conflict'],
  ['prepared starts are switched off (allowPreparedExec)', -32600, 'permissionDenied'],
  ['this server does not allow connections to the network (--min-sandbox)', -32600, 'permissionDenied'],
  [
    'this server does not allow programs to use the network (minSandbox); send networkProxy null',
    -32600,
    'permissionDenied',
  ],
  [
    'limits of memoryBytes, pids and cpuPercent need native starts, which this server does not have',
    -32600,
    'unsupported',
  ],
  ['the server is shutting down', -32600, 'server'],
  ['internal error; the server log has the details', -32603, 'server'],
  ['No space left on device (os error 28)', -32603, 'server'],
  ['something that this client does not know', -32600, 'invalidInput'],
  ['something that this client does not know', -1, 'server'],
])('%s (%i) has the kind %s', (message, code, kind) => {
  expect(serverErrorKind(code, message)).toBe(kind);
});
