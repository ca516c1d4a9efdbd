import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectSocket } from 'node:net';
import type { Duplex } from 'node:stream';
import { finished } from 'node:stream/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { endedByReset } from '../../src/base/reset-socket.ts';
import { ExecServerClient } from '../../src/client/client.ts';
import { MAX_TCP_STREAMS } from '../../src/client/limits.ts';
import { startServer, TcpProxy } from '../../src/testing/index.ts';
import { inMemory, overStdio, overUnixSocket, overWebSocket } from '../support/connected-clients.ts';
import { overRelay } from '../support/relay.ts';
import { echoPeer, tcpPeer } from '../support/tcp-peers.ts';
import { waitFor } from '../support/wait-for.ts';

const TRANSPORTS = {
  websocket: overWebSocket,
  'a unix socket': overUnixSocket,
  stdio: overStdio,
  memory: inMemory,
  relay: overRelay,
};

async function open(transport: keyof typeof TRANSPORTS): Promise<ExecServerClient> {
  const { client, close } = await TRANSPORTS[transport]();
  onTestFinished(close);
  return client;
}

/** A server in this process with a client, and a proxy between them that a test can cut. */
async function fixture(config: Parameters<typeof startServer>[0] = {}) {
  const server = await startServer(config);
  onTestFinished(() => server.close());
  const proxy = await TcpProxy.open(server.url);
  onTestFinished(() => proxy.close());
  const client = await ExecServerClient.connect({ url: proxy.url });
  onTestFinished(() => client.close());
  return { server, proxy, client };
}

/** Reads to the end. Unlike an iterator it does not destroy the stream, whose other side may be open. */
function buffer(stream: Duplex): Promise<Buffer> {
  const chunks: Buffer[] = [];
  return new Promise((resolve, reject) => {
    stream
      .on('data', (chunk) => chunks.push(chunk))
      .once('end', () => resolve(Buffer.concat(chunks)))
      .once('error', reject)
      .resume();
  });
}

async function text(stream: Duplex): Promise<string> {
  return String(await buffer(stream));
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

describe.each(Object.keys(TRANSPORTS) as (keyof typeof TRANSPORTS)[])('over %s', (transport) => {
  test('a stream carries megabytes in both directions unaltered', async () => {
    const client = await open(transport);
    const peer = await echoPeer();
    const socket = await client.connectTcp({ port: peer.port });
    const sent = randomBytes(8 * 1024 * 1024 + 17);
    const received = buffer(socket);
    socket.end(sent);
    expect(sha256(await received)).toBe(sha256(sent));
    await waitFor('the end of the peer', () => peer.sockets.size === 0);
  });

  test('a forwarded port leads to the port of the server', async () => {
    const client = await open(transport);
    const peer = await echoPeer();
    const forward = await client.forward({ port: peer.port });
    const local = connectSocket({ port: forward.port, host: '127.0.0.1', allowHalfOpen: true });
    local.end('hello');
    expect(await text(local)).toBe('hello');
    await forward.close();
    const refused = connectSocket(forward.port, '127.0.0.1');
    const [error] = await once(refused, 'error');
    expect((error as NodeJS.ErrnoException).code).toBe('ECONNREFUSED');
  });
});

describe('each side of a stream ends on its own', () => {
  test('the client ends first, and still gets the answer', async () => {
    const { client } = await fixture();
    const peer = await tcpPeer((socket) => void text(socket).then((got) => socket.end(`got ${got}`)));
    const socket = await client.connectTcp({ port: peer.port });
    socket.end('question');
    expect(await text(socket)).toBe('got question');
  });

  test('the peer ends first, and still gets what follows', async () => {
    const { client } = await fixture();
    let got = '';
    const peer = await tcpPeer((socket) => {
      socket.end('bye');
      socket.on('data', (data) => {
        got += data;
      });
    });
    const socket = await client.connectTcp({ port: peer.port });
    expect(await text(socket)).toBe('bye');
    socket.end('after');
    await waitFor('the rest', () => peer.sockets.size === 0);
    expect(got).toBe('after');
  });
});

describe('a stream that breaks', () => {
  test('delivers what the peer sent before it reset the connection', async () => {
    const { client } = await fixture();
    const peer = await tcpPeer((socket) => socket.write('last words'));
    const socket = await client.connectTcp({ port: peer.port });
    const [words] = await once(socket, 'data');
    expect(String(words)).toBe('last words');
    for (const accepted of peer.sockets) accepted.resetAndDestroy();
    await expect(finished(socket)).rejects.toThrow('the peer reset the connection');
  });

  test('is reset for the peer when the client destroys it', async () => {
    const { client } = await fixture();
    const peer = await echoPeer();
    const socket = await client.connectTcp({ port: peer.port });
    const [accepted] = [...peer.sockets];
    const failed = once(accepted!, 'error');
    socket.destroy();
    expect(((await failed)[0] as NodeJS.ErrnoException).code).toBe('ECONNRESET');
  });

  test('is reset on both sides when the connection of the client is lost', async () => {
    const { client, proxy } = await fixture();
    const peer = await echoPeer();
    const forward = await client.forward({ port: peer.port });
    const local = connectSocket(forward.port, '127.0.0.1');
    local.write('x');
    await once(local, 'data');
    const [accepted] = [...peer.sockets];
    const failed = Promise.all([once(accepted!, 'error'), once(local, 'error')]);
    proxy.drop();
    for (const [error] of await failed) expect((error as NodeJS.ErrnoException).code).toBe('ECONNRESET');
    const again = connectSocket(forward.port, '127.0.0.1');
    again.end('again');
    expect(await text(again)).toBe('again');
  });
});

test('a local program that resets its connection with data resets that of the server', async () => {
  const { client } = await fixture();
  let resets = 0;
  const peer = await tcpPeer((socket) => {
    socket.once('error', () => resets++).resume();
    socket.once('end', () => {
      if (endedByReset(socket)) resets++;
    });
  });
  const forward = await client.forward({ port: peer.port });
  const local = connectSocket(forward.port, '127.0.0.1');
  await once(local, 'connect');
  await waitFor('the peer', () => peer.sockets.size === 1);
  local.write('half a mess');
  local.resetAndDestroy();
  await waitFor('the reset', () => resets === 1);
});

test('a local connection waits while the client recovers', async () => {
  const { client, proxy } = await fixture();
  const peer = await echoPeer();
  const forward = await client.forward({ port: peer.port });
  proxy.interrupt();
  await waitFor('the loss', () => client.state === 'recovering');
  const local = connectSocket(forward.port, '127.0.0.1');
  local.end('patience');
  const answer = text(local);
  await once(local, 'connect');
  proxy.restore();
  expect(await answer).toBe('patience');
});

test('a forwarded port reports connections that fail, and closes with its client', async () => {
  const { client } = await fixture();
  const peer = await echoPeer();
  await peer.close();
  const errors: string[] = [];
  const forward = await client.forward({ port: peer.port, onError: ({ message }) => errors.push(message) });
  const local = connectSocket(forward.port, '127.0.0.1');
  const [error] = await once(local, 'error');
  expect((error as NodeJS.ErrnoException).code).toBe('ECONNRESET');
  expect(errors).toEqual([
    `tcp/connect to 127.0.0.1:${peer.port} failed: connection refused; no program listens on this port`,
  ]);
  await expect(client.forward({ port: peer.port, localPort: forward.port })).rejects.toThrow('in use');
  await client.close();
  expect(forward.port).toBe(0);
});

describe('back-pressure', () => {
  test('a peer that does not read stops the writer, and then gets everything', async () => {
    const { client } = await fixture();
    const peer = await tcpPeer((socket) => socket.pause());
    const socket = await client.connectTcp({ port: peer.port });
    const sent = randomBytes(32 * 1024 * 1024);
    let written = 0;
    socket.write(sent, () => {
      written = sent.length;
    });
    await waitFor('the peer', () => peer.sockets.size === 1);
    // Another stream of the same connection is not affected.
    const echo = await echoPeer();
    const other = await client.connectTcp({ port: echo.port });
    const received = buffer(other);
    const megabyte = randomBytes(1024 * 1024);
    other.end(megabyte);
    expect(sha256(await received)).toBe(sha256(megabyte));
    expect(written).toBe(0);
    const [accepted] = [...peer.sockets];
    const got = buffer(accepted!);
    socket.end();
    expect(sha256(await got)).toBe(sha256(sent));
    socket.destroy();
  });

  test('a client that does not read stops the peer, and then gets everything', async () => {
    const { client } = await fixture();
    const sent = randomBytes(32 * 1024 * 1024);
    let done = false;
    const peer = await tcpPeer((socket) => {
      socket.end(sent, () => {
        done = true;
      });
    });
    const socket = await client.connectTcp({ port: peer.port });
    const echo = await echoPeer();
    const other = await client.connectTcp({ port: echo.port });
    other.end('not affected');
    expect(await text(other)).toBe('not affected');
    expect(done).toBe(false);
    expect(sha256(await buffer(socket))).toBe(sha256(sent));
  });
});

test('1,000 streams leave nothing behind', async () => {
  const { client } = await fixture();
  const peer = await echoPeer();
  const descriptors = () =>
    process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;
  const one = async (index: number) => {
    const socket = await client.connectTcp({ port: peer.port });
    if (index % 3 === 0) {
      socket.destroy();
      return;
    }
    socket.end(`stream ${index}`);
    expect(await text(socket)).toBe(`stream ${index}`);
  };
  await one(1);
  await waitFor('the first stream', () => peer.sockets.size === 0);
  const before = descriptors();
  for (let from = 0; from < 1000; from += 50) {
    await Promise.all(Array.from({ length: 50 }, (_, index) => one(from + index)));
  }
  await waitFor('all peers', () => peer.sockets.size === 0);
  await waitFor('all sockets', () => descriptors() <= before);
});

test('a client opens a limited number of streams', async () => {
  const { client } = await fixture();
  const peer = await echoPeer();
  const sockets: Duplex[] = [];
  for (let from = 0; from < MAX_TCP_STREAMS; from += 64) {
    const some = Array.from({ length: 64 }, () => client.connectTcp({ port: peer.port }));
    sockets.push(...(await Promise.all(some)));
  }
  await expect(client.connectTcp({ port: peer.port })).rejects.toMatchObject({ kind: 'overloaded' });
  sockets.pop()?.destroy();
  const last = await waitFor('a free slot', () => client.connectTcp({ port: peer.port }).catch(() => null));
  last!.end('last');
  expect(await text(last!)).toBe('last');
  for (const socket of sockets) socket.destroy();
});
