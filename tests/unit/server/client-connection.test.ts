import { afterEach, describe, expect, test, vi } from 'vitest';
import type { RpcError } from '../../../src/protocol/errors.ts';
import { METHODS } from '../../../src/protocol/registry.ts';
import { RpcConnection } from '../../../src/rpc/connection.ts';
import { MAX_MALFORMED_IN_A_ROW, UNSENT_RESPONSES_MAX_BYTES } from '../../../src/rpc/limits.ts';
import { BusyPollClient } from '../../../src/server/busy-poll.ts';
import { connectInMemory, type MemoryConnection } from '../../../src/testing/index.ts';

const connections: MemoryConnection[] = [];

afterEach(async () => {
  await Promise.all(connections.splice(0).map((connection) => connection.close()));
});

function connect(config: Parameters<typeof connectInMemory>[0] = {}): MemoryConnection {
  const connection = connectInMemory({ logLevel: 'error', ...config });
  connections.push(connection);
  return connection;
}

async function refusal(request: Promise<unknown>): Promise<Pick<RpcError, 'code' | 'message'>> {
  const { code, message } = await request.then(
    () => Promise.reject(new Error('the request was not refused')),
    (error: RpcError) => error,
  );
  return { code, message };
}

/** Params that pass validation, by method. */
const params: Readonly<Record<string, unknown>> = {
  'process/start': { processId: 'p', argv: ['true'], cwd: 'file:///', env: {}, tty: false },
  'process/write': { processId: 'p', chunk: '', writeId: 'w' },
  'process/signal': { processId: 'p', signal: 'interrupt' },
  'process/resize': { processId: 'p', rows: 1, cols: 1 },
  'process/list': {},
  'environment/info': {},
  'environment/status': {},
  'command/exec': { processId: 'p', argv: ['true'], cwd: '/', env: {}, tty: false },
  'command/exec/write': { processId: 'p', chunk: '' },
  'fs/writeFile': { path: 'file:///f', dataBase64: '' },
  'fs/walk': {
    path: 'file:///',
    options: { maxDepth: 1, maxDirectories: 1, maxEntries: 1, followDirectorySymlinks: false },
  },
  'fs/copy': { sourcePath: 'file:///a', destinationPath: 'file:///b', recursive: false },
  'fs/rename': { sourcePath: 'file:///a', destinationPath: 'file:///b' },
  'fs/list': { paths: ['file:///'] },
  'fs/setAttributes': { path: 'file:///a', mode: 0o600 },
  'fs/createLink': { path: 'file:///a', target: 'b' },
  'fs/open': { handleId: 'h', path: 'file:///f' },
  'fs/readBlock': { handleId: 'h', offset: 0, len: 1 },
  'fs/writeBlock': { handleId: 'h', offset: 0, chunk: '' },
  'fs/close': { handleId: 'h' },
  'fs/watchMissing': { watchId: 1, missing: [] },
  'fs/watch': { watchId: 'w', path: 'file:///' },
  'fs/unwatch': { watchId: 'w' },
  'fs/hash': { paths: ['file:///'] },
  'fs/search': { path: 'file:///', pattern: 'x' },
  'http/request': { method: 'GET', url: 'http://127.0.0.1:1/', requestId: 'r' },
  'process/consumed': { processId: 'p', seq: 1 },
  'process/setLifetime': { processId: 'p', lifetime: { type: 'detached' } },
  'recordings/list': {},
  'recordings/read': { recordingId: 'r' },
  'tcp/connect': { streamId: 's', port: 1 },
  'tcp/data': { streamId: 's', chunk: '' },
  'tcp/end': { streamId: 's' },
  'tcp/close': { streamId: 's' },
  'tcp/consumed': { streamId: 's', bytes: 1 },
  'ports/watch': { watchId: 'w' },
  'ports/unwatch': { watchId: 'w' },
  'http/cancel': { requestId: 'r' },
  'http/consumed': { requestId: 'r', bytes: 1 },
  'capabilityRoots/discoverV1': { roots: [] },
  'capabilities/discoverV2': { cwd: 'file:///' },
  'environmentConfig/read': { cwd: 'file:///', configPaths: [['a']], requirementsPaths: [] },
};
const methods = Object.entries(METHODS).filter(([name]) => name !== 'initialize');

describe('the handshake', () => {
  test.each(methods)('refuses %s before initialize and before initialized', async (method, { family }) => {
    const { client } = connect();
    const call = () =>
      refusal(client.request(method, params[method] ?? { processId: 'p', path: 'file:///' }));
    expect(await call()).toEqual({
      code: -32600,
      message: `client must call initialize before using ${family} methods`,
    });
    await client.call('initialize', { clientName: 'test' });
    expect(await call()).toEqual({
      code: -32600,
      message: `client must send initialized before using ${family} methods`,
    });
  });

  test.each([
    ['environment/info', 'environment info'],
    ['environment/status', 'environment status'],
    ['process/start', 'exec'],
  ] as const)('%s belongs to the family %s', (method, family) => {
    expect(METHODS[method].family).toBe(family);
  });

  test('reports bad params and unknown methods in any state', async () => {
    const { client } = connect();
    expect(await refusal(client.request('process/read', {}))).toMatchObject({ code: -32602 });
    expect(await refusal(client.request('nope', {}))).toMatchObject({ code: -32601 });
    expect(await refusal(client.request('initialized', {}))).toMatchObject({ code: -32601 });
    expect(await refusal(client.request('initialize', null))).toMatchObject({ code: -32602 });
    await client.handshake();
    expect(await refusal(client.request('nope'))).toMatchObject({ code: -32601 });
  });

  test('refuses a second initialize, which changes nothing', async () => {
    const { client } = connect();
    await client.handshake();
    expect(await refusal(client.request('initialize', { clientName: 'again' }))).toEqual({
      code: -32600,
      message: 'initialize may only be sent once per connection',
    });
    expect(await client.call('environment/status', {})).toEqual({ status: 'ready' });
  });

  test('accepts initialize again after one that failed', async () => {
    const { client } = connect();
    for (const id of ['nope', '']) {
      expect(await refusal(client.request('initialize', { resumeSessionId: id }))).toEqual({
        code: -32600,
        message: `unknown session id ${id}`,
      });
    }
    await client.handshake();
    expect(await client.call('environment/status', {})).toEqual({ status: 'ready' });
  });

  test.each([
    ['missing', '{"method":"initialized"}'],
    ['null', '{"method":"initialized","params":null}'],
    ['an array', '{"method":"initialized","params":[]}'],
    ['a string', '{"method":"initialized","params":"x"}'],
    ['a number', '{"method":"initialized","params":5}'],
  ])('accepts initialized with %s params, also repeatedly', async (_name, text) => {
    const { client } = connect();
    await client.call('initialize', {});
    client.sendText(text);
    client.sendText(text);
    expect(await client.call('environment/status', {})).toEqual({ status: 'ready' });
  });

  test('serves requests that are sent without waiting for responses', async () => {
    const { client } = connect();
    client.sendText('{"id":1,"method":"initialize","params":{"clientName":"x"}}');
    client.sendText('{"method":"initialized"}');
    client.sendText('{"id":2,"method":"environment/status"}');
    expect([await client.next(), await client.next()]).toMatchObject([
      { id: 1, result: { sessionId: expect.any(String) } },
      { id: 2, result: { status: 'ready' } },
    ]);
  });

  test('returns the same environment info as environment/info', async () => {
    const { client } = connect();
    const { environmentInfo } = await client.call('initialize', {});
    client.notify('initialized');
    expect(await client.call('environment/info', {})).toEqual(environmentInfo);
  });
});

describe('protocol violations', () => {
  const violations: [string, string][] = [
    ['an unknown notification', '{"method":"foo/bar"}'],
    ['a request without an id', '{"method":"process/terminate","params":{"processId":"p"}}'],
    ['initialize without an id', '{"method":"initialize","params":{"clientName":"x"}}'],
    ['a response to nothing', '{"id":1,"result":{}}'],
    ['an error response to nothing', '{"id":"x","error":{"code":1,"message":"m"}}'],
  ];

  test.each(violations)('%s gets an error with id -1 and closes the connection', async (_name, text) => {
    const { client } = connect();
    await client.handshake();
    client.sendText(text);
    expect(await client.closed).toMatchObject({ code: 1008 });
    expect(client.received.at(-1)).toMatchObject({ id: -1, error: { code: -32600 } });
  });

  test('initialized before a successful initialize closes the connection', async () => {
    const early = connect().client;
    early.notify('initialized');
    expect(await early.closed).toMatchObject({ code: 1008 });
    const failed = connect().client;
    await refusal(failed.request('initialize', { resumeSessionId: 'nope' }));
    failed.notify('initialized');
    expect(await failed.closed).toMatchObject({ code: 1008 });
  });

  test.each(violations)('%s gets an error only, with lenientNotifications', async (_name, text) => {
    const { client } = connect({ lenientNotifications: true });
    await client.handshake();
    client.sendText(text);
    await client.waitFor((message) => message.id === -1);
    expect(await client.call('environment/status', {})).toEqual({ status: 'ready' });
  });

  test('replaces control characters in a method name', async () => {
    const { client } = connect();
    client.notify('\u001b[2J\n');
    expect(await client.closed).toMatchObject({ reason: 'unexpected notification `?[2J?`' });
  });

  test('answers invalid JSON with id -1 and keeps the connection', async () => {
    const { client } = connect();
    for (const text of ['{', '[]', '', '{"id":null,"method":"m"}']) client.sendText(text);
    for (let index = 0; index < 4; index++) expect(await client.next()).toMatchObject({ id: -1 });
    await client.handshake();
  });

  test('logs and closes a connection that sends only invalid JSON', async () => {
    const log = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    const { client } = connect({ logLevel: 'warn' });
    await client.handshake();
    for (let index = 0; index < MAX_MALFORMED_IN_A_ROW; index++) client.sendText('{');
    const reason = '1024 malformed messages in a row';
    expect(await client.closed).toEqual({ code: 1002, reason });
    const lines = log.mock.calls.map(([line]) => String(line));
    log.mockRestore();
    expect(lines.filter((line) => line.includes('protocol violation'))).toEqual([
      expect.stringContaining(reason),
    ]);
  });
});

test('answers with an error when a result cannot be encoded', async () => {
  const { client } = connect({ logLevel: 'error' });
  await client.handshake();
  const respond = vi.spyOn(RpcConnection.prototype, 'respond').mockImplementation(() => {
    throw new RangeError('Invalid string length');
  });
  const log = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  for (const [method, ask] of [
    ['environment/status', {}],
    ['process/write', { processId: 'p', chunk: '' }],
  ] as const) {
    expect(await refusal(client.request(method, ask))).toEqual({
      code: -32603,
      message: 'internal error; the server log has the details',
    });
  }
  expect(log.mock.calls.join('')).toContain('Invalid string length');
  log.mockRestore();
  respond.mockRestore();
  expect(await client.call('environment/status', {})).toEqual({ status: 'ready' });
});

test('reports requests and responses, including errors, to the busy poll', async () => {
  const { client } = connect();
  await client.handshake();
  const received = vi.spyOn(BusyPollClient.prototype, 'requestReceived');
  const sent = vi.spyOn(BusyPollClient.prototype, 'responseSent');
  await client.call('environment/status', {});
  await refusal(client.request('no/such/method', {}));
  await refusal(client.request('fs/readFile', { path: 'file:///no/such/file' }));
  expect([received.mock.calls.length, sent.mock.calls.length]).toEqual([3, 3]);
  vi.restoreAllMocks();
});

describe('a client that does not read its responses', () => {
  const REQUESTS = 2_000;

  /** Sends requests in portions, as a socket delivers them. Returns how many the server has answered. */
  async function flood({ client, serverEnd }: MemoryConnection, text: string): Promise<number> {
    let answers = 0;
    const send = serverEnd.send.bind(serverEnd);
    serverEnd.send = (message) => {
      answers++;
      return send(message);
    };
    serverEnd.setCongested(true);
    for (let index = 0; index < REQUESTS; index++) {
      client.sendText(text);
      if (index % 50 === 49) await new Promise(setImmediate);
    }
    let before = -1;
    while (answers > before) {
      before = answers;
      for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
    }
    return answers;
  }

  test.each([
    ['control requests', '{"id":"ID","method":"environment/status"}'],
    ['refused requests', '{"id":"ID","method":"nope"}'],
  ])('cannot make the server queue them without a limit: %s', async (_name, text) => {
    const connection = connect();
    const { client, serverEnd } = connection;
    await client.handshake();
    const idLength = 10_000;
    const answered = await flood(connection, text.replace('ID', 'x'.repeat(idLength)));
    const allowed = UNSENT_RESPONSES_MAX_BYTES / idLength;
    expect(answered).toBeGreaterThan(allowed * 0.8);
    expect(answered).toBeLessThan(allowed * 1.2);
    serverEnd.setCongested(false);
    expect(await client.call('environment/status', {})).toEqual({ status: 'ready' });
    expect(client.received.filter(({ id }) => typeof id === 'string')).toHaveLength(REQUESTS);
  });
});
