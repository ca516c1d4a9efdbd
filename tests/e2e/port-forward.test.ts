import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { createClient } from '@redis/client';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { type ServerProcess, startServerProcess, TcpProxy } from '../../src/testing/index.ts';
import { Certificates } from '../support/certificates.ts';
import { answerOf, startForward } from '../support/port-forward.ts';
import { CommandUser } from '../support/private-server.ts';
import { ENVIRONMENT, startExecutorProgram, TestRelay } from '../support/relay.ts';
import { echoPeer, tcpPeer } from '../support/tcp-peers.ts';
import { waitFor } from '../support/wait-for.ts';
import { RedisServer } from '../unit/relay/service/redis-server.ts';

const user = new CommandUser();
let server: ServerProcess;
beforeAll(async () => {
  server = await startServerProcess();
});
afterAll(async () => {
  await server.close();
  await user.close();
});

/** The server behind a proxy that the test can cut. */
async function cuttableServer(): Promise<TcpProxy> {
  const proxy = await TcpProxy.open(server.url);
  onTestFinished(() => proxy.close());
  return proxy;
}

/** A web server whose websocket sends back what it gets. */
async function webServer(): Promise<number> {
  const http = createServer((_request, response) => response.end('hello'));
  const sockets = new WebSocketServer({ server: http });
  sockets.on('connection', (socket) => socket.on('message', (data) => socket.send(String(data))));
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  onTestFinished(() => {
    for (const socket of sockets.clients) socket.terminate();
    http.closeAllConnections();
    http.close();
  });
  return (http.address() as AddressInfo).port;
}

async function echoOf(socket: WebSocket, text: string): Promise<string> {
  socket.send(text);
  const [data] = await once(socket, 'message');
  return String(data);
}

describe('a lost connection', () => {
  test('HTTP, a websocket and a database work before it and after it, through the same local ports', async () => {
    const proxy = await cuttableServer();
    const redis = await RedisServer.start();
    const [web, database] = [await webServer(), Number(new URL(redis.url).port)];
    const forward = await startForward(user, ['-E', proxy.url, `0:${web}`, `0:${database}`], { count: 2 });
    const url = `127.0.0.1:${forward.ports[0]}`;
    expect(forward.stdout()).toBe(
      `127.0.0.1:${forward.ports[0]} -> ${web}\n127.0.0.1:${forward.ports[1]} -> ${database}\n`,
    );

    const client = createClient({ url: `redis://127.0.0.1:${forward.ports[1]}` });
    client.on('error', () => {});
    await client.connect();
    onTestFinished(() => client.destroy());
    await client.set('key', 'before');
    const socket = new WebSocket(`ws://${url}`);
    await once(socket, 'open');
    expect(await echoOf(socket, 'one')).toBe('one');
    expect(await (await fetch(`http://${url}`, { headers: { connection: 'close' } })).text()).toBe('hello');

    proxy.interrupt();
    // Its end is a reset, which no program takes for a regular end.
    const [code] = await once(
      socket.on('error', () => {}),
      'close',
    );
    expect(code).toBe(1006);
    await waitFor('the message', () => forward.stderr().includes('reconnecting…'));
    const waiting = fetch(`http://${url}`, { headers: { connection: 'close' } });
    proxy.restore();
    expect(await (await waiting).text()).toBe('hello');
    expect(await client.get('key')).toBe('before');
    const again = new WebSocket(`ws://${url}`);
    await once(again, 'open');
    expect(await echoOf(again, 'two')).toBe('two');
    again.terminate();

    const lines = forward.stderr().trimEnd().split('\n');
    const expected =
      /^exec-server port-forward: the connection was lost: .*; [23] open streams were reset; reconnecting…$/;
    expect(lines[0]).toMatch(expected);
    expect(lines.filter((line) => line.endsWith('reconnecting…'))).toHaveLength(1);
    expect(lines.at(-1)).toBe('exec-server port-forward: reconnected');
    expect(await forward.stop()).toBe(0);
  });

  test('a server that was killed is replaced, and the port leads to the new one', async () => {
    const peer = await echoPeer();
    const forward = await startForward(user, [`0:${peer.port}`]);
    expect(await answerOf(forward.ports[0]!, 'one')).toBe('one');
    const pid = user.serverPid!;
    process.kill(pid, 'SIGKILL');
    expect(await answerOf(forward.ports[0]!, 'two')).toMatch(/^two$|^ECONNRESET$/);
    await waitFor('the new server', () => forward.stderr().includes('reconnected'));
    expect(await answerOf(forward.ports[0]!, 'three')).toBe('three');
    expect(user.serverPid).not.toBe(pid);
  });

  test('ends the command with 125 after --reconnect-timeout', async () => {
    const proxy = await cuttableServer();
    const peer = await echoPeer();
    const args = ['-E', proxy.url, '--reconnect-timeout', '1ms', '--json', `0:${peer.port}`];
    const forward = await startForward(user, args);
    expect(await answerOf(forward.ports[0]!, 'one')).toBe('one');
    proxy.interrupt();
    expect(await forward.stop('SIGWINCH')).toBe(125);
    expect(JSON.parse(forward.stderr())).toMatchObject({
      code: 'disconnected',
      message: expect.stringContaining('could not be restored in time'),
    });
    const events = forward
      .stdout()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events).toMatchObject([
      {
        type: 'listening',
        address: '127.0.0.1',
        port: forward.ports[0],
        remoteHost: '127.0.0.1',
        remotePort: peer.port,
      },
      { type: 'reconnecting', openStreams: 0 },
    ]);
  });
});

test('100 connections at the same time, each with its own bytes', async () => {
  const peer = await echoPeer();
  const forward = await startForward(user, ['-E', server.url, `0:${peer.port}`]);
  const texts = Array.from({ length: 100 }, (_, index) => `${index} `.repeat(10_000));
  const answers = await Promise.all(texts.map((text) => answerOf(forward.ports[0]!, text)));
  expect(answers.every((answer, index) => answer === texts[index])).toBe(true);
  await waitFor('the end of the streams', () => peer.sockets.size === 0);
  expect(forward.stderr()).toBe('');
});

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
  '%s ends it with 0 and frees the port',
  async (signal) => {
    const peer = await tcpPeer((socket) => socket.write('held'));
    const forward = await startForward(user, ['-E', server.url, `0:${peer.port}`]);
    const held = connect(forward.ports[0]!, '127.0.0.1').on('error', () => {});
    await once(held, 'data');
    expect(await forward.stop(signal)).toBe(0);
    expect(await answerOf(forward.ports[0]!, '')).toBe('ECONNREFUSED');
    await waitFor('the end of the stream', () => peer.sockets.size === 0);
    held.destroy();
  },
);

test('listens on the address that is given, also IPv6', async () => {
  const peer = await echoPeer();
  const args = ['-E', server.url, `[::1]:0:${peer.port}`, `127.0.0.2:0:localhost:${peer.port}`];
  const forward = await startForward(user, args, { count: 2 });
  const [first, second] = forward.ports;
  expect(forward.stdout()).toBe(
    `[::1]:${first} -> ${peer.port}\n127.0.0.2:${second} -> localhost:${peer.port}\n`,
  );
  expect(await answerOf(first!, 'six', '::1')).toBe('six');
  expect(await answerOf(second!, 'two', '127.0.0.2')).toBe('two');
  expect(await answerOf(second!, 'two')).toBe('ECONNREFUSED');
});

describe('a local port that is taken', () => {
  test('is named with what to write instead, and nothing stays open', async () => {
    const peer = await echoPeer();
    const args = ['port-forward', '-E', server.url, '0:8080', `${peer.port}:8080`];
    expect(await user.run(args)).toMatchObject({
      code: 125,
      stdout: '',
      stderr: `exec-server: cannot listen on 127.0.0.1:${peer.port}: the port is in use; write '0:8080' to listen on any free port\n`,
    });
    const json = await user.run(['port-forward', '-E', server.url, '--json', `${peer.port}:db.internal:1`]);
    expect([json.code, JSON.parse(json.stderr)]).toEqual([
      125,
      {
        code: 'conflict',
        message: `cannot listen on 127.0.0.1:${peer.port}: the port is in use`,
        hint: "write '0:db.internal:1' to listen on any free port",
      },
    ]);
  });

  test('of the SOCKS proxy too', async () => {
    const peer = await echoPeer();
    const { code, stderr } = await user.run(['port-forward', '-E', server.url, '-D', String(peer.port)]);
    expect([code, stderr]).toEqual([
      125,
      `exec-server: cannot listen on 127.0.0.1:${peer.port}: the port is in use; write '-D 0' to listen on any free port\n`,
    ]);
  });
});

describe('what the server refuses', () => {
  test('a host outside of its loopback: the setting is named, once', async () => {
    const forward = await startForward(user, ['-E', server.url, '0:db.internal:5432']);
    expect(await answerOf(forward.ports[0]!, 'x')).toBe('ECONNRESET');
    expect(await answerOf(forward.ports[0]!, 'x')).toBe('ECONNRESET');
    expect(forward.stderr()).toMatch(
      /^exec-server port-forward: db\.internal:5432: tcp\/connect is not allowed to reach db\.internal: .*\(tcpAllowedHosts\); list the host in the server's --tcp-allowed-hosts\n$/,
    );
  });

  test('a port on which no program listens: the reason is shown once', async () => {
    const peer = await echoPeer();
    const forward = await startForward(user, ['-E', server.url, `0:${peer.port}`]);
    const line = `exec-server port-forward: ${peer.port}: tcp/connect to 127.0.0.1:${peer.port} failed: connection refused; no program listens on this port\n`;
    expect(await answerOf(forward.ports[0]!, 'works')).toBe('works');
    await peer.close();
    expect(await answerOf(forward.ports[0]!, 'x')).toBe('ECONNRESET');
    expect(await answerOf(forward.ports[0]!, 'x')).toBe('ECONNRESET');
    expect(forward.stderr()).toBe(line);
  });

  test('a token without the scope `net`; with it TLS works', async () => {
    const certificates = new Certificates();
    onTestFinished(() => certificates.remove());
    const authority = certificates.authority('authority');
    const { cert, key } = certificates.signedBy(authority, 'server');
    const secret = user.workspace.file('secret', 'a secret of at least thirty-two bytes');
    const secure = await startServerProcess([
      ...['-p', '0', '--tls-cert', cert, '--tls-key', key],
      ...['--ws-auth', 'signed-bearer-token', '--ws-shared-secret-file', secret],
    ]);
    onTestFinished(() => secure.close());
    for (const scope of ['exec', 'net']) {
      await user.run([
        'token',
        'signed',
        '--secret-file',
        secret,
        '--scope',
        scope,
        '--out',
        `${scope}.token`,
      ]);
    }
    const env = { SSL_CERT_FILE: authority.cert };
    const peer = await echoPeer();
    const args = ['-E', secure.url, `0:${peer.port}`, '--token-file'];
    const { code, stdout, stderr } = await user.run(['port-forward', ...args, 'exec.token'], env);
    expect([code, stdout, stderr]).toEqual([
      125,
      '',
      expect.stringMatching(
        /^exec-server: the token does not allow to forward ports: it needs the scope net; .*\n$/,
      ),
    ]);
    const forward = await startForward(user, [...args, 'net.token'], { env });
    expect(await answerOf(forward.ports[0]!, 'over TLS')).toBe('over TLS');
  });
});

test('works through a relay', async () => {
  const relay = await TestRelay.open();
  const executor = startExecutorProgram(relay);
  onTestFinished(() => executor.stop().finally(() => relay.close()));
  await waitFor('the executor', () => executor.stderr().includes('connected to'));
  const token = user.workspace.file('relay.token', relay.token('harness'));
  const add = ['env', 'add', 'behind', relay.harnessUrl, '--token-file', token];
  expect(await user.run([...add, '--environment-id', ENVIRONMENT])).toMatchObject({ code: 0 });
  const peer = await echoPeer();
  const forward = await startForward(user, ['-E', 'behind', `0:${peer.port}`]);
  expect(await answerOf(forward.ports[0]!, 'one')).toBe('one');
  relay.harnessLink.drop();
  expect(await answerOf(forward.ports[0]!, 'two')).toBe('two');
});

test('bad usage ends it with 2 before anything is opened', async () => {
  const { code, stdout, stderr } = await user.run(['port-forward', '-E', server.url, '8080', '--auto']);
  expect([code, stdout, stderr]).toEqual([
    2,
    '',
    expect.stringMatching(/^exec-server port-forward: ports, --auto and -D exclude each other; /),
  ]);
});
