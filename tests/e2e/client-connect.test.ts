import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import {
  type AddressInfo,
  connect as connectTcp,
  createServer as createTcpServer,
  type Socket,
} from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { ExecServerClient } from '../../src/client/client.ts';
import { stdioCommand } from '../../src/client/stdio.ts';
import { startServer, TcpProxy, type TestServer } from '../../src/testing/index.ts';
import { isAlive, processesWith } from '../support/machine.ts';
import { shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const kind = (expected: string, rest: Record<string, unknown> = {}) =>
  expect.objectContaining({ name: 'ClientError', kind: expected, ...rest });
const hint = expect.any(String);

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function server(): Promise<TestServer> {
  const started = await startServer();
  cleanups.push(() => started.close());
  return started;
}

async function listening(listener: Server): Promise<number> {
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => listener.close());
  return (listener.address() as AddressInfo).port;
}

/** A proxy in front of a server that checks each upgrade request: a status rejects it, null accepts it. */
async function upgradeProxy(
  url: string,
  decide: (authorization: string | undefined) => number | null,
): Promise<string> {
  const { port, hostname } = new URL(url);
  const proxy = createServer();
  const sockets = new Set<Socket>();
  proxy.on('upgrade', (request, near: Socket, head) => {
    const status = decide(request.headers.authorization);
    if (status !== null) {
      near.end(`HTTP/1.1 ${status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
      return;
    }
    const far = connectTcp(Number(port), hostname);
    const lines = request.rawHeaders.flatMap((text, index, all) =>
      index % 2 ? [] : [`${text}: ${all[index + 1]}`],
    );
    far.write(`GET ${request.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
    far.write(head);
    near.pipe(far).pipe(near);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        near.destroy();
        far.destroy();
      });
    }
  });
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy();
  });
  return `ws://127.0.0.1:${await listening(proxy)}`;
}

describe('connecting by URL', () => {
  test.each(['http://127.0.0.1:1', 'ws:/', 'nonsense', 'ws://host:1#part', ''])(
    'rejects the address %j',
    async (url) => {
      await expect(ExecServerClient.connect({ url })).rejects.toEqual(kind('config', { hint }));
    },
  );

  test('reports a server that cannot be reached', async () => {
    const listener = createTcpServer();
    const port = await listening(listener as unknown as Server);
    await new Promise((resolve) => listener.close(resolve));
    const url = `ws://127.0.0.1:${port}/?token=secret`;
    const failure = await ExecServerClient.connect({ url }).catch((error: Error) => error);
    expect(failure).toEqual(kind('connectFailed', { retryable: true, hint }));
    expect((failure as Error).message).not.toContain('secret');
  });

  test('times out on a server that accepts the connection and sends nothing', async () => {
    const sockets: Socket[] = [];
    const mute = createTcpServer((socket) => sockets.push(socket));
    const port = await listening(mute as unknown as Server);
    const url = `ws://127.0.0.1:${port}`;
    await expect(ExecServerClient.connect({ url, connectTimeoutMs: 50 })).rejects.toEqual(
      kind('connectTimeout', { retryable: true }),
    );
    await waitFor('the connection', () => sockets.length > 0);
    const [socket] = sockets;
    socket!.resume();
    await waitFor('the end of the connection', () => socket!.readableEnded || socket!.destroyed);
  });

  test('reports a server that is not an exec-server', async () => {
    const port = await listening(createServer((_request, response) => response.end('hello')));
    await expect(ExecServerClient.connect({ url: `ws://127.0.0.1:${port}` })).rejects.toEqual(
      kind('connectFailed', { data: { status: 200 }, hint }),
    );
  });

  test('sends the token, and fails for good without it or with a wrong one', async () => {
    const url = await upgradeProxy((await server()).url, (shown) => (shown === 'Bearer right' ? null : 401));
    await expect(ExecServerClient.connect({ url })).rejects.toEqual(
      kind('connectFailed', { retryable: false, hint: 'pass a token as `authToken`', data: { status: 401 } }),
    );
    await expect(ExecServerClient.connect({ url, authToken: 'wrong' })).rejects.toEqual(
      kind('connectFailed', { retryable: false, hint: 'the token is invalid or has expired' }),
    );
    const client = await ExecServerClient.connect({ url, authToken: 'right' });
    expect(await client.call('environment/status', {})).toEqual({ status: 'ready' });
    await client.close();
  });

  test.each(['secret\n', ' secret', 'sécret'])(
    'rejects the malformed token %j before sending it',
    async (authToken) => {
      const { url } = await server();
      await expect(ExecServerClient.connect({ url, authToken })).rejects.toEqual(
        kind('config', { hint, retryable: false }),
      );
    },
  );

  test('a token that becomes invalid fails the client when it reconnects', async () => {
    let valid = true;
    const url = await upgradeProxy((await server()).url, () => (valid ? null : 401));
    const proxy = await TcpProxy.open(url);
    cleanups.push(() => proxy.close());
    const client = await ExecServerClient.connect({ url: proxy.url, authToken: 't' });
    const process = await client.backend.start(shell('p', 'sleep 600'));
    valid = false;
    proxy.drop();
    await waitFor('the end', () => client.state === 'failed');
    expect(client.failure).toEqual(kind('disconnected', { hint: 'the token is invalid or has expired' }));
    expect(process.state.failure).toBe(client.failure);
  });

  test('retries when the server is overloaded for a moment', async () => {
    let busy = 0;
    const url = await upgradeProxy((await server()).url, () => (busy-- > 0 ? 503 : null));
    const proxy = await TcpProxy.open(url);
    cleanups.push(() => proxy.close());
    const client = await ExecServerClient.connect({ url: proxy.url });
    busy = 2;
    proxy.drop();
    await waitFor('the loss', () => client.state === 'recovering');
    expect(await client.call('process/list', {})).toEqual({ processes: [] });
    expect(busy).toBeLessThan(0);
    await client.close();
  });
});

describe('connecting over TLS', () => {
  const file = (name: string) => readFileSync(new URL(`../fixtures/${name}`, import.meta.url));
  const [cert, key] = [file('localhost-cert.pem'), file('localhost-key.pem')];

  async function secure(url: string, options: Record<string, unknown> = {}): Promise<string> {
    const target = new URL(url);
    const sockets: Socket[] = [];
    const front = createTlsServer({ cert, key, ...options });
    front.on('upgrade', (request, near: Socket) => {
      const far = connectTcp(Number(target.port), target.hostname);
      const lines = request.rawHeaders.flatMap((text, index, all) =>
        index % 2 ? [] : [`${text}: ${all[index + 1]}`],
      );
      far.write(`GET / HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
      near.pipe(far).pipe(near);
      sockets.push(near, far);
      for (const socket of [near, far]) socket.on('error', () => undefined);
    });
    cleanups.push(() => {
      for (const socket of sockets) socket.destroy();
    });
    return `wss://localhost:${await listening(front as unknown as Server)}`;
  }

  test('trusts a server by its certificate authority only', async () => {
    const url = await secure((await server()).url);
    await expect(ExecServerClient.connect({ url })).rejects.toEqual(
      kind('connectFailed', {
        retryable: false,
        hint: 'pass the certificate of its certificate authority as `tls.ca`',
      }),
    );
    for (const tls of [{ ca: cert }, { ca: [cert.toString()] }, { rejectUnauthorized: false }]) {
      const client = await ExecServerClient.connect({ url, tls });
      expect(await client.call('environment/status', {})).toEqual({ status: 'ready' });
      await client.close();
    }
  });

  test('distinguishes a server without TLS from an untrusted one', async () => {
    const url = (await server()).url.replace('ws:', 'wss:');
    await expect(ExecServerClient.connect({ url })).rejects.toEqual(
      kind('connectFailed', {
        retryable: false,
        hint: 'use ws:// for a server without a certificate',
      }),
    );
  });

  test('sends a client certificate', async () => {
    const url = await secure((await server()).url, { requestCert: true, rejectUnauthorized: true, ca: cert });
    await expect(ExecServerClient.connect({ url, tls: { ca: cert } })).rejects.toEqual(kind('connectFailed'));
    const client = await ExecServerClient.connect({ url, tls: { ca: cert, cert, key } });
    await client.close();
  });
});

describe('a half-open connection', () => {
  test('is noticed by the silence of the server, and replaced', async () => {
    const { url } = await server();
    const proxy = await TcpProxy.open(url);
    cleanups.push(() => proxy.close());
    const client = await ExecServerClient.connect({
      url: proxy.url,
      pingIntervalMs: 200,
      pongTimeoutMs: 1_500,
    });
    const process = await client.backend.start({ ...shell('p', 'cat'), pipeStdin: true });
    // From now on nothing arrives, and neither side is notified.
    proxy.setStalled(true);
    await process.write('still here\n');
    await waitFor('the echo', () => process.revision === 1);
    expect(client.state).toBe('connected');
    await process.terminate();
    await client.close();
  });

  test('that is merely idle is kept', async () => {
    const client = await ExecServerClient.connect({
      url: (await server()).url,
      pingIntervalMs: 50,
      pongTimeoutMs: 1_500,
    });
    const states: string[] = [];
    client.onStateChange((state) => states.push(state));
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    expect(states).toEqual([]);
    await client.close();
  });
});

describe('connecting to a command over stdio', () => {
  const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
  const command = (options: { env?: Record<string, string>; onStderr?: (line: string) => void } = {}) =>
    stdioCommand({ program: process.execPath, args: [BIN, '--listen', 'stdio'], ...options });

  test('runs programs, and ends everything with the client', async () => {
    const client = await ExecServerClient.connect(command());
    const mark = `sleep 7${process.pid}.25`;
    const started = await client.backend.start(shell('p', `echo hello; ${mark}`));
    await waitFor('output', () => started.revision === 1);
    expect(processesWith(mark).length).toBeGreaterThan(0);
    await client.close();
    await waitFor('the end of everything', () => processesWith(mark).length === 0);
    expect(started.state.failure).toEqual(kind('closed'));
  });

  test('reports a program that cannot be started', async () => {
    const open = ExecServerClient.connect(stdioCommand({ program: '/no/such/program' }));
    await expect(open).rejects.toEqual(kind('spawn', { hint, retryable: false }));
  });

  test('reports why a program exits immediately', async () => {
    const lines: string[] = [];
    const source = stdioCommand({
      program: '/bin/sh',
      args: ['-c', 'echo first >&2; echo cannot do that >&2; exit 3'],
      onStderr: (line) => lines.push(line),
    });
    await expect(ExecServerClient.connect(source)).rejects.toEqual(
      kind('spawn', {
        message: expect.stringContaining('/bin/sh has ended (exit code 3): cannot do that'),
      }),
    );
    expect(lines).toEqual(['first', 'cannot do that']);
  });

  test('kills a program that prints garbage, with all its descendants, even if it ignores SIGTERM', async () => {
    const mark = `sleep 8${process.pid}.25`;
    const script = `trap '' TERM; ${mark} & echo "$$" >&2; echo garbage; while :; do sleep 0.05; done`;
    let pid = 0;
    const source = stdioCommand({
      program: '/bin/sh',
      args: ['-c', script],
      onStderr: (line) => {
        pid ||= Number(line);
      },
    });
    await expect(ExecServerClient.connect(source)).rejects.toEqual(kind('protocol', { hint }));
    await waitFor('the pid', () => pid > 0);
    await waitFor('the end of the program', () => !isAlive(pid) && processesWith(mark).length === 0);
  });

  test('a program that dies fails the client for good', async () => {
    const client = await ExecServerClient.connect(command());
    const started = await client.backend.start({
      ...shell('p', 'read line; kill -9 $PPID; sleep 600'),
      pipeStdin: true,
    });
    await started.write('now\n').catch(() => undefined);
    await waitFor('the end', () => client.state === 'failed');
    expect(client.failure).toEqual(kind('disconnected', { message: expect.stringContaining('SIGKILL') }));
    expect(started.state.failure).toBe(client.failure);
  });

  test('does not pass on credentials of other programs', async () => {
    process.env.NODE_REPL_AUTH_TOKEN = 'secret';
    cleanups.push(() => Reflect.deleteProperty(process.env, 'NODE_REPL_AUTH_TOKEN'));
    const client = await ExecServerClient.connect(command({ env: { OF_MINE: 'yes' } }));
    const policy = {
      inherit: 'all',
      ignoreDefaultExcludes: true,
      exclude: [],
      set: {},
      includeOnly: [],
    } as const;
    const started = await client.backend.start({
      ...shell('p', 'echo "[$NODE_REPL_AUTH_TOKEN][$OF_MINE]"'),
      envPolicy: { ...policy, exclude: [], includeOnly: [] },
    });
    await waitFor('the end', () => started.state.closed);
    const { chunks } = await started.read();
    expect(Buffer.from(chunks[0]!.bytes).toString()).toBe('[][yes]\n');
    await client.close();
  });
});
