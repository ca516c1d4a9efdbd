import { EventEmitter, once } from 'node:events';
import { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import { uptimeMs } from '../../../src/base/uptime.ts';
import { SEND_WINDOW_BYTES } from '../../../src/transport/limits.ts';
import { connectWebSocket, WebSocketTransport } from '../../../src/transport/websocket.ts';
import { waitFor } from '../../support/wait-for.ts';
import { RecordedEvents } from './recorded-events.ts';
import { BINARY, frame, listen, PING, PONG, pair, QUIET, rawClient, TEXT } from './websocket-peers.ts';

/** The header of a frame of 64 KiB or more. */
const LONG_HEADER_BYTES = 10;
/** The send and receive buffers of a loopback connection hold less than this in total. */
const MOST_THE_SYSTEM_BUFFERS = 40 * 1024 * 1024;

test('answers a ping with its payload', async () => {
  const { client } = await pair();
  client.ping('are you there');
  const [payload] = (await once(client, 'pong')) as [Buffer];
  expect(payload.toString()).toBe('are you there');
});

test('confirms what was sent with the next sign of the peer, and pings a silent peer once', async () => {
  const { client, transport } = await pair();
  let [pings, confirmed] = [0, 0];
  client.on('ping', () => {
    pings++;
    client.pong();
  });
  const sentAt = uptimeMs();
  const confirm = () => transport.confirmReceived?.(sentAt, () => confirmed++);
  confirm();
  confirm();
  expect(confirmed).toBe(0);
  await waitFor('the pong', () => confirmed === 2);
  expect(pings).toBe(1);
  confirm();
  expect(confirmed).toBe(3);
  client.terminate();
});

test('never confirms anything when the peer does not answer', async () => {
  const { client, transport, events } = await pair();
  let confirmed = 0;
  transport.confirmReceived?.(uptimeMs(), () => confirmed++);
  await once(client, 'ping');
  client.terminate();
  await events.untilClosed();
  expect(confirmed).toBe(0);
});

test('answers only the latest of many pings, and sends one pong at a time to a peer that does not read', async () => {
  const server = await listen();
  const client = await rawClient(server);
  const transport = await server.accepted();
  const events = RecordedEvents.of(transport);
  client.pause();
  const [count, part] = [1024, 'x'.repeat(64 * 1024)];
  expect(count * part.length).toBeGreaterThan(MOST_THE_SYSTEM_BUFFERS);
  for (let sent = 0; sent < count; sent++) transport.send(part);
  for (let ping = 0; ping < 10_000; ping++) client.write(frame(PING, String(ping).padStart(120)));
  client.write(frame(TEXT, 'behind the pings'));
  await events.untilMessages(1);
  const received: Buffer[] = [];
  let bytes = 0;
  client.on('data', (chunk: Buffer) => {
    received.push(chunk);
    bytes += chunk.length;
  });
  client.resume();
  const pong = (payload: string) =>
    Buffer.concat([Buffer.of(0x80 | PONG, payload.length), Buffer.from(payload)]);
  const partsBytes = count * (part.length + LONG_HEADER_BYTES);
  const pongs = Buffer.concat([pong('0'.padStart(120)), pong('9999'.padStart(120))]);
  while (bytes < partsBytes + pongs.length) await once(client, 'data');
  expect(Buffer.concat(received).subarray(partsBytes)).toEqual(pongs);
});

describe('Keepalive', () => {
  let nowMs = 0;

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    vi.spyOn(process, 'uptime').mockImplementation(() => nowMs / 1000);
  });

  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  /** Advances the clock and the timers together. */
  function pass(milliseconds: number): void {
    for (let passed = 0; passed < milliseconds; passed += 10) {
      nowMs += 10;
      vi.advanceTimersByTime(10);
    }
  }

  /** Advances the time and waits for the resulting ping. */
  async function pinged(client: WebSocket, afterMs: number): Promise<void> {
    const ping = once(client, 'ping');
    pass(afterMs);
    await ping;
  }

  test.each([
    ['often', 10],
    ['less often than it may be silent', 60_000],
  ])('keeps a peer that answers pings, and drops one that does not: pinged %s', async (_name, ms) => {
    const { client, events, socket } = await pair({ pingIntervalMs: ms, peerSilenceTimeoutMs: 40 });
    for (let round = 0; round < 10; round++) {
      await pinged(client, 20);
      const before = socket.bytesRead;
      client.pong();
      await waitFor('the pong', () => socket.bytesRead > before);
    }
    expect(events.log).toEqual([]);
    pass(40);
    expect(client.readyState).toBe(WebSocket.OPEN);
    pass(20);
    expect(await events.untilClosed()).toMatchObject({ code: 1006 });
  });

  test('keeps a peer that takes long to send a message', async () => {
    const server = await listen({ pingIntervalMs: 20, peerSilenceTimeoutMs: 40 });
    const peer = await rawClient(server);
    const events = RecordedEvents.of(await server.accepted());
    const [socket] = server.sockets;
    const message = frame(BINARY, 'x'.repeat(60));
    for (const byte of message) {
      const before = socket!.bytesRead;
      peer.write(Buffer.of(byte));
      await waitFor('the byte', () => socket!.bytesRead > before);
      pass(20);
    }
    await events.untilMessages(1);
    pass(80);
    expect(await events.untilClosed()).toMatchObject({ code: 1006 });
  });

  test('a client keeps a server that takes long to send a message', async () => {
    const server = await listen();
    const client = await connectWebSocket(server.url, { pingIntervalMs: 20, peerSilenceTimeoutMs: 40 });
    const events = RecordedEvents.of(client);
    const arrived = vi.spyOn(Socket.prototype, 'push');
    await server.accepted();
    const [socket] = server.sockets;
    for (const byte of [0x80 | TEXT, 20, ...Buffer.from('x'.repeat(20))]) {
      const before = arrived.mock.calls.length;
      socket!.write(Buffer.of(byte));
      await waitFor('the byte', () => arrived.mock.calls.length > before);
      pass(20);
    }
    await events.untilMessages(1);
    pass(80);
    expect(await events.untilClosed()).toMatchObject({ code: 1006 });
  });

  test('keeps a peer while receiving is paused', async () => {
    const { client, transport, events } = await pair({ pingIntervalMs: 20, peerSilenceTimeoutMs: 40 });
    transport.setReceiving(false);
    for (let round = 0; round < 10; round++) await pinged(client, 20);
    expect(events.log).toEqual([]);
  });

  test('sends no pings when they are disabled', async () => {
    const { client, events } = await pair({ pingIntervalMs: 0, peerSilenceTimeoutMs: 40 });
    let pings = 0;
    client.on('ping', () => pings++);
    pass(1_000);
    client.send('still here');
    await events.untilMessages(1);
    expect(pings).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('stops the pings with the connection', async () => {
    const { client, events } = await pair({ pingIntervalMs: 20, peerSilenceTimeoutMs: 0 });
    expect(vi.getTimerCount()).toBe(1);
    client.terminate();
    await events.untilClosed();
    expect(vi.getTimerCount()).toBe(0);
  });
});

test('reports drained after congestion, whatever is sent in between', () => {
  const socket = new StubWebSocket();
  const transport = new WebSocketTransport(socket as unknown as WebSocket, QUIET);
  const events = RecordedEvents.of(transport);
  const part = 'x'.repeat(SEND_WINDOW_BYTES / 4);
  expect(Array.from({ length: 5 }, () => transport.send(part))).toEqual([true, true, true, true, false]);
  socket.finishOne();
  socket.finishOne();
  // Below the window again, but the caller still waits for `drained`.
  expect(transport.send('control')).toBe(false);
  socket.finishOne();
  expect(events.log).toEqual([]);
  socket.finishOne();
  expect(events.log).toEqual(['drained']);
  expect(transport.send('control')).toBe(true);
  socket.emit('close', 1006, Buffer.alloc(0));
  expect(events.log).toEqual(['drained', 'closed']);
});

test('does not report drained after the end', () => {
  const socket = new StubWebSocket();
  const transport = new WebSocketTransport(socket as unknown as WebSocket, QUIET);
  const events = RecordedEvents.of(transport);
  expect(transport.send('x'.repeat(SEND_WINDOW_BYTES + 1))).toBe(false);
  socket.emit('close', 1006, Buffer.alloc(0));
  socket.finishOne();
  expect(events.log).toEqual(['closed']);
});

test('a paused transport creates back-pressure and loses nothing', async () => {
  const { client, transport, events } = await pair({ maxMessageBytes: 1_000_000 });
  transport.setReceiving(false);
  const count = 64;
  for (let sent = 0; sent < count; sent++) client.send(`${sent} ${'x'.repeat(512 * 1024)}`);
  while (client.bufferedAmount === 0) await new Promise(setImmediate);
  expect(events.log).toEqual([]);
  expect(client.bufferedAmount).toBeGreaterThan(1_000_000);
  transport.setReceiving(true);
  await events.untilMessages(count);
  expect(events.messages.map((text) => Number.parseInt(text, 10))).toEqual([...Array(count).keys()]);
  expect(client.bufferedAmount).toBe(0);
});

test.each(['end', 'resetAndDestroy'] as const)(
  'notices that the peer leaves while receiving is paused (%s)',
  async (how) => {
    const server = await listen();
    const client = await rawClient(server);
    const transport = await server.accepted();
    const events = RecordedEvents.of(transport);
    client.write(frame(TEXT, 'first'));
    await events.untilMessages(1);
    transport.setReceiving(false);
    client[how]();
    expect(await events.untilClosed()).toMatchObject({ code: 1006 });
  },
);

test('a peer that ends its side gets everything that was sent before', async () => {
  const server = await listen();
  const client = await rawClient(server);
  const transport = await server.accepted();
  const events = RecordedEvents.of(transport);
  client.pause();
  const part = Buffer.alloc(SEND_WINDOW_BYTES / 4, 'x');
  let sent = 1;
  while (transport.send(part)) {
    sent++;
    await new Promise(setImmediate);
  }
  const socket = server.sockets[0]!;
  const ended = once(socket, 'end');
  client.end();
  await ended;
  // The end is handled in a later turn.
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
  expect(socket.writableLength).toBeGreaterThan(0);
  let received = 0;
  client.on('data', (chunk: Buffer) => {
    received += chunk.length;
  });
  client.resume();
  await once(client, 'end');
  expect(received).toBeGreaterThan(sent * part.length);
  expect(await events.untilClosed()).toMatchObject({ code: 1006 });
});

test('asks to wait while the peer does not read', async () => {
  const { client, transport, events } = await pair();
  client.pause();
  const part = Buffer.alloc(SEND_WINDOW_BYTES / 4, 'x');
  let sent = 1;
  // The system's buffers have no fixed size; they are full when nothing drains any more.
  while (transport.send(part)) {
    sent++;
    await new Promise(setImmediate);
  }
  expect(transport.send('control')).toBe(false);
  expect(events.log).toEqual([]);
  let received = 0;
  client.on('message', () => received++);
  client.resume();
  await events.until(() => events.count('drained') === 1);
  expect(transport.send('after')).toBe(true);
  while (received < sent + 2) await once(client, 'message');
  expect(events.log).toEqual(['drained']);
});

/** A websocket whose sends are finished by the test, one at a time. */
class StubWebSocket extends EventEmitter {
  readonly readyState = WebSocket.OPEN;
  readonly #sends: (() => void)[] = [];

  pause(): void {}
  resume(): void {}

  send(_message: unknown, _options: unknown, done: () => void): void {
    this.#sends.push(done);
  }

  finishOne(): void {
    this.#sends.shift()?.();
  }
}
