import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { expect, onTestFinished, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import {
  connectFrameSocket,
  type FrameSocket,
  FrameSocketUpgrader,
} from '../../../src/transport/frame-socket.ts';
import { FRAME_COST, QUEUED_FRAME_COST_BYTES, TURN_CREDIT } from '../../../src/transport/limits.ts';
import { UpgradeRefusedError } from '../../../src/transport/open-websocket.ts';
import type { CloseReason } from '../../../src/transport/transport.ts';
import { TurnCredit } from '../../../src/transport/turn-credit.ts';
import type { WebSocketOptions } from '../../../src/transport/websocket.ts';
import { waitFor } from '../../support/wait-for.ts';

/** Records the events of a socket. */
class Recorded {
  readonly frames: Buffer[] = [];
  drained = 0;
  sentBytes = 0;
  closed: CloseReason | null = null;

  static of(socket: FrameSocket): Recorded {
    const recorded = new Recorded();
    socket.open({
      frame: (bytes) => recorded.frames.push(Buffer.from(bytes)),
      sent: (bytes) => {
        recorded.sentBytes += bytes;
      },
      drained: () => {
        recorded.drained++;
      },
      closed: (reason) => {
        expect(recorded.closed).toBeNull();
        recorded.closed = reason;
      },
    });
    return recorded;
  }
}

/** A server that accepts one frame socket for each client. */
async function startServer(options: Partial<WebSocketOptions> = {}) {
  const sockets: FrameSocket[] = [];
  const upgrader = new FrameSocketUpgrader({
    maxMessageBytes: 1024 * 1024,
    maxUnfinishedBytes: 8 * 1024 * 1024,
    pingIntervalMs: 0,
    peerSilenceTimeoutMs: 0,
    ...options,
  });
  const server = createServer((_request, response) => response.writeHead(418).end());
  const connections: Socket[] = [];
  server.on('connection', (socket) => connections.push(socket));
  server.on('upgrade', (request, socket, head) => {
    if (request.url === '/no') socket.end('HTTP/1.1 418 no\r\n\r\n');
    else upgrader.upgrade(request, socket, head, (frames) => sockets.push(frames));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    for (const connection of connections) connection.destroy();
    server.close();
  });
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const accepted = async () => {
    await waitFor('a socket', () => sockets.length > 0);
    return sockets.shift()!;
  };
  return { url, accepted };
}

async function startPair(options: Partial<WebSocketOptions> = {}) {
  const { url, accepted } = await startServer(options);
  const client = await connectFrameSocket(url);
  onTestFinished(() => client.drop());
  return { client, server: await accepted() };
}

test('delivers bytes unchanged and in order, including those received before open', async () => {
  const { client, server } = await startPair();
  const frames = [Buffer.from([0xff, 0, 1]), Buffer.alloc(70_000, 7), Buffer.alloc(0), Buffer.from('last')];
  for (const frame of frames) client.send(frame);
  const received = Recorded.of(server);
  await waitFor('the frames', () => received.frames.length === frames.length);
  expect(received.frames).toEqual(frames);
});

test('reports congestion when the peer does not read, and drains afterwards', async () => {
  const { client, server } = await startPair();
  const [sender, reader] = [Recorded.of(server), Recorded.of(client)];
  client.setReceiving(false);
  // More than the system's buffers for one connection.
  const frame = Buffer.alloc(100_000);
  const count = 300;
  let accepted = true;
  for (let index = 0; index < count; index++) accepted = server.send(frame);
  expect([accepted, sender.drained]).toEqual([false, 0]);
  client.setReceiving(true);
  await waitFor('everything', () => reader.frames.length === count);
  await waitFor('the news', () => sender.drained === 1 && server.pendingBytes === 0);
  expect(sender.sentBytes).toBe(count * (frame.length + QUEUED_FRAME_COST_BYTES));
});

test('releases pending bytes when the peer is cut off', async () => {
  const { client, server } = await startPair();
  const recorded = Recorded.of(server);
  Recorded.of(client);
  client.setReceiving(false);
  let bytes = 0;
  for (; server.pendingBytes < 1_000_000 && bytes < 100_000_000; bytes += 100_000 + QUEUED_FRAME_COST_BYTES) {
    server.send(Buffer.alloc(100_000));
  }
  server.drop();
  await waitFor('the end', () => recorded.closed);
  expect([server.pendingBytes, recorded.sentBytes]).toEqual([0, bytes]);
  expect(server.send(Buffer.alloc(1))).toBe(true);
  expect(server.pendingBytes).toBe(0);
});

test('a socket closed before open leaves no timer', async () => {
  const { url, accepted } = await startServer();
  const begun = vi.spyOn(globalThis, 'setInterval');
  const ended = vi.spyOn(globalThis, 'clearInterval');
  onTestFinished(() => void vi.restoreAllMocks());
  const client = await connectFrameSocket(url, { pingIntervalMs: 30_000, peerSilenceTimeoutMs: 60_000 });
  const timers = begun.mock.calls.flatMap(([, ms], index) =>
    ms === 30_000 ? [begun.mock.results[index]!.value] : [],
  );
  expect(timers).toHaveLength(1);
  Recorded.of(await accepted());
  client.close();
  await waitFor('the end of the timer', () => ended.mock.calls.some(([timer]) => timer === timers[0]));
});

test('text ends the connection', async () => {
  const { url, accepted } = await startServer();
  const client = new WebSocket(url);
  onTestFinished(() => client.terminate());
  await once(client, 'open');
  const recorded = Recorded.of(await accepted());
  client.send('text');
  const [code] = await once(client, 'close');
  expect([code, recorded.frames.length]).toEqual([1008, 0]);
});

test('a message that is too large ends the connection', async () => {
  const { client, server } = await startPair({ maxMessageBytes: 1_000 });
  const [recorded, received] = [Recorded.of(client), Recorded.of(server)];
  client.send(Buffer.alloc(1_000));
  client.send(Buffer.alloc(1_001));
  await waitFor('the end', () => recorded.closed);
  expect([recorded.closed?.code, received.frames.length]).toEqual([1009, 1]);
});

test('closes after everything that was sent, with its reason', async () => {
  const { client, server } = await startPair();
  const recorded = Recorded.of(client);
  Recorded.of(server);
  for (let count = 0; count < 50; count++) server.send(Buffer.alloc(100_000));
  server.close({ code: 1001, reason: 'x'.repeat(200) });
  await waitFor('the end', () => recorded.closed);
  expect(recorded.frames).toHaveLength(50);
  expect(recorded.closed).toEqual({ code: 1001, reason: 'x'.repeat(123) });
});

test('answers pings, and drops a peer that answers none', async () => {
  const { url, accepted } = await startServer({ pingIntervalMs: 20, peerSilenceTimeoutMs: 500 });
  const mute = new WebSocket(url, { autoPong: false });
  onTestFinished(() => mute.terminate());
  const recorded = Recorded.of(await accepted());
  const good = await connectFrameSocket(url);
  onTestFinished(() => good.drop());
  const [goodEnd, goodServer] = [Recorded.of(good), Recorded.of(await accepted())];
  await waitFor('the end of the mute one', () => recorded.closed);
  expect([goodEnd.closed, goodServer.closed]).toEqual([null, null]);
});

test('does not drop a peer because the process itself was busy for long', async () => {
  const { url, accepted } = await startServer({ pingIntervalMs: 20, peerSilenceTimeoutMs: 400 });
  const client = await connectFrameSocket(url);
  onTestFinished(() => client.drop());
  const [clientEnd, serverEnd] = [Recorded.of(client), Recorded.of(await accepted())];
  client.send(Buffer.from('before'));
  await waitFor('the frame', () => serverEnd.frames.length === 1);
  for (const end = performance.now() + 1_000; performance.now() < end; );
  client.send(Buffer.from('after'));
  await waitFor('the frame', () => serverEnd.frames.length === 2);
  expect([clientEnd.closed, serverEnd.closed]).toEqual([null, null]);
});

test('rejects when the upgrade is refused or aborted', async () => {
  const { url } = await startServer();
  await expect(connectFrameSocket(`${url}/no`)).rejects.toThrow(UpgradeRefusedError);
  const aborted = connectFrameSocket(url, { signal: AbortSignal.abort(new Error('enough')) });
  await expect(aborted).rejects.toThrow('enough');
});

/** Sockets on streams in memory. Each gets a credit. */
function openOnStreams(maxUnfinishedBytes = 1024 * 1024) {
  const options = { maxMessageBytes: 1024 * 1024, pingIntervalMs: 0, peerSilenceTimeoutMs: 0 };
  const upgrader = new FrameSocketUpgrader({ ...options, maxUnfinishedBytes });
  return (credit: TurnCredit, frame: () => void = () => {}) => {
    const [server, client] = duplexPair();
    const received: Buffer[] = [];
    client.on('data', (chunk: Buffer) => received.push(chunk));
    upgrader.upgrade(
      UPGRADE_REQUEST,
      server,
      Buffer.alloc(0),
      (socket) => {
        socket.open({
          frame,
          drained: () => {},
          closed: () => {},
        });
        onTestFinished(() => socket.drop());
      },
      credit,
    );
    return { client, received: () => Buffer.concat(received).toString('latin1') };
  };
}

test('many connections with one credit get as many turns as one connection', async () => {
  const FRAMES = 10 * (TURN_CREDIT / FRAME_COST);
  const frames = Buffer.concat(Array(FRAMES).fill(maskedFrame(Buffer.of(1))));
  const open = openOnStreams();
  const [tenant, other] = [new TurnCredit(TURN_CREDIT, () => 0), new TurnCredit(TURN_CREDIT, () => 0)];
  let [tenantFrames, otherFrames, tenantFramesAtEnd] = [0, 0, 0];
  for (let count = 0; count < 20; count++) open(tenant, () => tenantFrames++).client.write(frames);
  const countOther = () => {
    if (++otherFrames === FRAMES) tenantFramesAtEnd = tenantFrames;
  };
  open(other, countOther).client.write(frames);
  await waitFor('the frames of all connections', () => tenantFrames === 20 * FRAMES);
  expect(otherFrames).toBe(FRAMES);
  // One turn more or less, whoever is first.
  expect(tenantFramesAtEnd).toBeLessThanOrEqual(FRAMES + 2 * (TURN_CREDIT / FRAME_COST));
});

test('too many unfinished messages end a connection of the tenant that has the most', async () => {
  const open = openOnStreams(10_000);
  const [tenant, other] = [new TurnCredit(), new TurnCredit()];
  const begin = (credit: TurnCredit) => {
    const opened = open(credit);
    // The end of the message is missing.
    opened.client.write(maskedFrame(Buffer.alloc(3_000)).subarray(0, -1));
    return opened;
  };
  const first = begin(other);
  const hoarded = [begin(tenant), begin(tenant), begin(tenant)];
  const isRefused = ({ received }: typeof first) =>
    received().includes('too many bytes of unfinished messages');
  await waitFor('the end of a connection', () => isRefused(hoarded[0]!));
  expect([first, ...hoarded.slice(1)].map(isRefused)).toEqual([false, false, false]);
});

test('a frame of several pieces keeps no more memory than it has bytes', async () => {
  const { client, server } = await startPair();
  const received: Uint8Array[] = [];
  server.open({ frame: (bytes) => received.push(bytes), drained: () => {}, closed: () => {} });
  Recorded.of(client);
  client.send(Buffer.alloc(70_000, 7));
  await waitFor('the frame', () => received.length === 1);
  expect([received[0]!.length, received[0]!.buffer.byteLength]).toEqual([70_000, 70_000]);
});

/** A binary frame of up to 64 KiB with a mask of zeros. */
function maskedFrame(payload: Buffer): Buffer {
  const { length } = payload;
  const size = length < 126 ? [0x80 | length] : [0xfe, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(0x82, ...size, 0, 0, 0, 0), payload]);
}

const UPGRADE_REQUEST = {
  method: 'GET',
  headers: {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
  },
} as unknown as IncomingMessage;
