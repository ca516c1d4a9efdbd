import { PassThrough } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DEFAULT_CONFIG, type ExecServerConfig } from '../../../src/server/config/config.ts';
import { ExecServer } from '../../../src/server/exec-server.ts';
import { serveStdio } from '../../../src/server/serve.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { createMemoryPair, type MemoryTransport } from '../../../src/transport/memory.ts';
import { bufferedText } from '../../support/buffered-text.ts';

const CONFIG: ExecServerConfig = { ...DEFAULT_CONFIG, logLevel: 'error', shutdownGracePeriodMs: 0 };
const servers: ExecServer[] = [];

afterEach(closeServers);

async function closeServers(): Promise<void> {
  await Promise.all(servers.splice(0).map((server) => server.close()));
}

function createServer(config: Partial<ExecServerConfig> = {}) {
  const server = new ExecServer({ ...CONFIG, ...config });
  servers.push(server);
  const connect = (): { client: TestClient; link: MemoryTransport } => {
    const [left, right] = createMemoryPair();
    void server.accept(right);
    return { client: new TestClient(left), link: left };
  };
  return { server, connect };
}

const start = (processId: string, script: string, pipeStdin = false) => ({
  processId,
  argv: ['/bin/sh', '-c', script],
  cwd: 'file:///',
  env: { PATH: '/usr/bin:/bin' },
  tty: false,
  pipeStdin,
});

describe('resuming a session', () => {
  test('works after its connection is closed, and needs initialized again', async () => {
    const { connect } = createServer();
    const first = connect();
    const sessionId = await first.client.handshake();
    const { client } = connect();
    await expect(client.request('initialize', { resumeSessionId: sessionId })).rejects.toMatchObject({
      code: -32010,
      message: `session ${sessionId} is already attached to another connection`,
    });
    expect(await first.client.call('environment/status', {})).toEqual({ status: 'ready' });
    first.link.break();
    expect(await client.call('initialize', { resumeSessionId: sessionId })).toMatchObject({ sessionId });
    await expect(client.request('process/read', { processId: 'p' })).rejects.toThrow('must send initialized');
    client.notify('initialized');
    await expect(client.request('process/read', { processId: 'p' })).rejects.toThrow('unknown process id p');
  });

  test('keeps the process and the output that it writes while detached', async () => {
    const { connect } = createServer();
    const first = connect();
    const sessionId = await first.client.handshake();
    await first.client.call('process/start', start('p', 'echo one; read line; echo "$line"', true));
    await first.client.waitFor(({ method }) => method === 'process/output');
    first.link.break();
    const stranger = connect().client;
    await stranger.handshake();
    await expect(stranger.request('process/read', { processId: 'p' })).rejects.toThrow(
      'unknown process id p',
    );
    const { client } = connect();
    await client.handshake({ resumeSessionId: sessionId });
    const chunk = Buffer.from('two\n').toString('base64');
    expect(await client.call('process/write', { processId: 'p', chunk, writeId: '1' })).toEqual({
      status: 'accepted',
    });
    await client.call('process/wait', { processId: 'p' });
    const { chunks, exitCode } = await client.call('process/read', { processId: 'p' });
    expect(Buffer.concat(chunks.map((each) => Buffer.from(each.chunk, 'base64'))).toString()).toBe(
      'one\ntwo\n',
    );
    expect(exitCode).toBe(0);
    expect(client.process('p').events.map(({ kind }) => kind)).toEqual(['output', 'exited', 'closed']);
  });

  test.each([
    ['the client asks for a TTL of 0', 0, {}],
    ['the server is configured with a TTL of 0', 60_000, { detachedSessionTtlMs: 0 }],
  ])('is not possible when %s', async (_name, detachedSessionTtlMs, config) => {
    const { connect } = createServer(config);
    const first = connect();
    const sessionId = await first.client.handshake({ detachedSessionTtlMs });
    first.link.break();
    const { client } = connect();
    await expect(client.request('initialize', { resumeSessionId: sessionId })).rejects.toThrow(
      'unknown session id',
    );
  });
});

describe('the TTL that a client asks for', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'], shouldAdvanceTime: true });
  });
  // A server that ends a process may wait for one of these timers.
  afterEach(async () => {
    await closeServers();
    vi.useRealTimers();
  });

  test.each([
    ['less than the default', 1, 60_000, 60_000, false],
    ['more than the default', 60_000, 1, 60_000, true],
    ['the default, which is more than the maximum', 60_000, 60_000, 1, true],
    ['more than the maximum, which it gets', 60_000, 1, 500, false],
    ['no limit, and it gets the maximum', -1, 1, 500, false],
    ['no limit, as the default', -1, Number.POSITIVE_INFINITY, 1, true],
    ['no limit, as the maximum', -1, 1, Number.POSITIVE_INFINITY, true],
    ['more than a timer can run', 2 ** 40, 1, Number.POSITIVE_INFINITY, true],
  ])('can be %s', async (_name, asked, ttl, max, kept) => {
    const { connect } = createServer({ detachedSessionTtlMs: ttl, maxDetachedSessionTtlMs: max });
    const first = connect();
    const sessionId = await first.client.handshake({ detachedSessionTtlMs: asked });
    await first.client.call('process/start', start('p', 'sleep 1000'));
    first.link.break();
    await nextTurn();
    vi.advanceTimersByTime(1_000);
    const resumed = connect().client.handshake({ resumeSessionId: sessionId });
    if (kept) expect(await resumed).toBe(sessionId);
    else await expect(resumed).rejects.toThrow('unknown session id');
  });

  test('does not keep a session without a process longer than the default', async () => {
    const { connect } = createServer({ detachedSessionTtlMs: 500, maxDetachedSessionTtlMs: 60_000 });
    const first = connect();
    const sessionId = await first.client.handshake({ detachedSessionTtlMs: -1 });
    first.link.break();
    await nextTurn();
    vi.advanceTimersByTime(1_000);
    await expect(connect().client.handshake({ resumeSessionId: sessionId })).rejects.toThrow(
      'unknown session id',
    );
  });

  test('is not longer than the default for a client that closes its connection', async () => {
    const { connect } = createServer({ detachedSessionTtlMs: 500, maxDetachedSessionTtlMs: 60_000 });
    const first = connect();
    const sessionId = await first.client.handshake({ detachedSessionTtlMs: -1 });
    await first.client.call('process/start', start('p', 'sleep 1000'));
    await first.client.close();
    await nextTurn();
    vi.advanceTimersByTime(1_000);
    await expect(connect().client.handshake({ resumeSessionId: sessionId })).rejects.toThrow(
      'unknown session id',
    );
  });

  test('is described as -1 when there is no limit', async () => {
    const { connect } = createServer({ detachedSessionTtlMs: Number.POSITIVE_INFINITY });
    const { environmentInfo } = await connect().client.call('initialize', { clientName: 'x' });
    expect(environmentInfo?.limits).toMatchObject({ detachedSessionTtlMs: -1, maxDetachedSessionTtlMs: -1 });
  });
});

describe('closing a server', () => {
  test('closes connections with the reason and leaves no timer', async () => {
    const { server, connect } = createServer({ detachedSessionTtlMs: 3_600_000 });
    const { client } = connect();
    await client.handshake();
    const before = timers();
    await server.close('enough');
    expect(await client.closed).toEqual({ code: 1001, reason: 'enough' });
    await server.closed;
    expect(timers()).toBeLessThanOrEqual(before);
  });

  test('closes a connection that is accepted after it has begun', async () => {
    const { server, connect } = createServer();
    void server.close();
    const early = connect().client;
    await server.closed;
    const late = connect().client;
    for (const client of [early, late]) {
      expect(await client.closed).toEqual({ code: 1001, reason: 'the server is shutting down' });
    }
  });

  test('happens once, however often close is called', async () => {
    const { server } = createServer();
    expect(server.close()).toBe(server.close('again'));
    await server.close();
  });

  test('lets programs end within the grace period and starts no new ones', async () => {
    const { server, connect } = createServer({ shutdownGracePeriodMs: 3_600_000 });
    const { client } = connect();
    await client.handshake();
    await client.call('process/start', start('p', 'trap "" TERM; echo ready; read line; exit 3', true));
    await client.waitFor(({ method }) => method === 'process/output');
    void server.close();
    await expect(client.request('process/start', start('late', 'sleep 600'))).rejects.toThrow(
      'no program can be started',
    );
    await client.call('process/write', { processId: 'p', chunk: Buffer.from('\n').toString('base64') });
    await server.closed;
    expect(client.received).toContainEqual(
      expect.objectContaining({
        method: 'process/exited',
        params: expect.objectContaining({ exitCode: 3 }),
      }),
    );
  });

  test('kills programs and closes connections without a session', async () => {
    const { server, connect } = createServer();
    const { client } = connect();
    const silent = connect().client;
    await client.handshake();
    await client.call('process/start', start('p', 'trap "" TERM; echo $$; sleep 600'));
    await client.waitFor(({ method }) => method === 'process/output');
    const pid = Number(client.process('p').text());
    expect(process.kill(pid, 0)).toBe(true);
    await server.close();
    expect(() => process.kill(pid, 0)).toThrow('ESRCH');
    expect((await silent.closed).code).toBe(1001);
  });
});

describe('over a pair of streams', () => {
  function connectStdio() {
    const [input, output] = [new PassThrough(), new PassThrough()];
    const server = serveStdio(CONFIG, input, output);
    const text = () => bufferedText(output);
    const send = (message: object) => input.write(`${JSON.stringify(message)}\n`);
    send({ id: 1, method: 'initialize', params: {} });
    send({ method: 'initialized' });
    return { input, output, server, send, text };
  }

  test('ends the server after the last responses when the input ends', async () => {
    const { input, server, send, text } = connectStdio();
    send({ id: 2, method: 'process/start', params: start('p', 'sleep 600') });
    send({ id: 3, method: 'process/wait', params: { processId: 'p' } });
    input.end('{"id":4,"method":"environment/status"}');
    await (await server).closed;
    const answers = text()
      .split('\n')
      .filter((line) => line.includes('"id"'))
      .map((line) => JSON.parse(line));
    expect(answers.map(({ id }) => id).sort()).toEqual([1, 2, 3, 4]);
    expect(answers.find(({ id }) => id === 3)).toMatchObject({ result: { running: true } });
  });

  test('ends although a program does not read its stdin', async () => {
    const { input, server, send } = connectStdio();
    send({ id: 2, method: 'process/start', params: start('p', 'sleep 600', true) });
    const chunk = Buffer.alloc(64 * 1024).toString('base64');
    for (let id = 3; id < 150; id++) send({ id, method: 'process/write', params: { processId: 'p', chunk } });
    input.end();
    await (await server).closed;
  });

  test('ends although the client does not read its responses', async () => {
    const { input, server, send } = connectStdio();
    const id = 'x'.repeat(30_000);
    for (let count = 0; count < 200; count++) send({ id, method: 'process/list' });
    input.end();
    await (await server).closed;
  });
});

/** Number of timers that keep this process alive. */
function timers(): number {
  return process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length;
}
