import { once } from 'node:events';
import { Socket } from 'node:net';
import { afterEach, expect, test, vi } from 'vitest';
import { BUFFER_POOL } from '../../../src/transport/buffer-pool.ts';
import { CLOSE_TIMEOUT_MS } from '../../../src/transport/limits.ts';
import { connectWebSocket } from '../../../src/transport/websocket.ts';
import { RecordedEvents } from './recorded-events.ts';
import { CLOSE, frame, listen, pair, rawClient, TEXT } from './websocket-peers.ts';

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test('receives text, binary and fragmented messages alike', async () => {
  const { client, events } = await pair();
  client.send('text é');
  client.send(Buffer.from('binary é'));
  client.send('frag', { fin: false });
  client.send('', { fin: false });
  client.send('mented', { fin: true });
  await events.untilMessages(3);
  expect(events.messages).toEqual(['text é', 'binary é', 'fragmented']);
});

test('reports a binary frame that is not UTF-8 and continues', async () => {
  const { client, events } = await pair();
  client.send(Buffer.of(0xff, 0xfe));
  client.send('next');
  await events.untilMessages(1);
  expect(events.log).toEqual(['undecodable a binary frame is not valid UTF-8', 'message next']);
});

test('sends text frames without compression or subprotocol', async () => {
  const { client, transport } = await pair();
  expect(client.extensions).toBe('');
  expect(client.protocol).toBe('');
  transport.send('one');
  const [text, isBinaryText] = (await once(client, 'message')) as [Buffer, boolean];
  transport.send(Buffer.from('twö'));
  const [bytes, isBinaryBytes] = (await once(client, 'message')) as [Buffer, boolean];
  expect([text.toString(), isBinaryText, bytes.toString(), isBinaryBytes]).toEqual([
    'one',
    false,
    'twö',
    false,
  ]);
});

test('keeps messages that arrive before open', async () => {
  const server = await listen();
  const client = await rawClient(server);
  const transport = await server.accepted();
  await new Promise((resolve) => client.write(frame(TEXT, 'early'), resolve));
  // The answer to a later client shows that the server has received the message.
  const other = await rawClient(server);
  const otherEvents = RecordedEvents.of(await server.accepted());
  other.write(frame(TEXT, 'later'));
  await otherEvents.untilMessages(1);
  const events = RecordedEvents.of(transport);
  await events.untilMessages(1);
  expect(events.messages).toEqual(['early']);
});

test('reports the end when it is opened after its connection is gone', async () => {
  const server = await listen();
  const client = await rawClient(server);
  const transport = await server.accepted();
  transport.close({ code: 1000, reason: '' });
  client.destroy();
  await once(client, 'close');
  const events = RecordedEvents.of(transport);
  await events.untilClosed();
  expect(events.log).toEqual(['closed']);
});

test.each([
  ['a message of the largest size', 1_000, null],
  ['a message beyond the largest size', 1_001, 1009],
])('%s', async (_name, size, code) => {
  const { client, events } = await pair();
  client.send('x'.repeat(size));
  if (code === null) {
    await events.untilMessages(1);
  } else {
    const [closeCode] = (await once(client, 'close')) as [number];
    expect(closeCode).toBe(code);
    expect((await events.untilClosed()).reason).toBe(
      'a message has more than 1000 bytes, the limit of this server',
    );
    expect(events.messages).toEqual([]);
  }
});

test('limits the total size of fragments', async () => {
  const { client, events } = await pair();
  client.send('x'.repeat(600), { fin: false });
  client.send('x'.repeat(401), { fin: true });
  await events.untilClosed();
  expect(events.messages).toEqual([]);
});

test('a message that exceeds the available memory ends only its own connection', async () => {
  const [poor, other] = [await pair({ maxMessageBytes: 1_000_000 }), await pair()];
  vi.spyOn(BUFFER_POOL, 'take').mockImplementation(() => Buffer.allocUnsafeSlow(Number.MAX_SAFE_INTEGER));
  poor.client.send('x'.repeat(500_000));
  const [code, reason] = (await once(poor.client, 'close')) as [number, Buffer];
  expect([code, reason.toString()]).toEqual([1013, 'not enough memory for the message']);
  await poor.events.untilClosed();
  expect(poor.events.messages).toEqual([]);
  other.client.send('goes on');
  await other.events.untilMessages(1);
});

test('closes with code and reason after everything that was sent', async () => {
  const { client, transport, events } = await pair();
  const messages: string[] = [];
  client.on('message', (data: Buffer) => messages.push(data.toString()));
  transport.send('last words');
  transport.close({ code: 1001, reason: 'going' });
  transport.close({ code: 1008, reason: 'again' });
  const [code, reason] = (await once(client, 'close')) as [number, Buffer];
  expect([code, reason.toString(), messages]).toEqual([1001, 'going', ['last words']]);
  await events.untilClosed();
  expect(events.log).toEqual(['closed']);
});

test.each([
  ['x'.repeat(123), 'x'.repeat(123)],
  ['x'.repeat(124), 'x'.repeat(123)],
  ['é'.repeat(62), 'é'.repeat(61)],
  ['😀'.repeat(31), '😀'.repeat(30)],
])('truncates the reason %s, never inside a character', async (reason, shown) => {
  const { client, transport } = await pair();
  transport.close({ code: 1008, reason });
  const [, received] = (await once(client, 'close')) as [number, Buffer];
  expect(received.toString()).toBe(shown);
});

test('delivers nothing that arrives after a close', async () => {
  const { client, transport, events } = await pair();
  // The peer's answer ends the connection, not the close timeout.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  transport.close({ code: 1008, reason: 'violation' });
  transport.setReceiving(false);
  client.send('too late');
  client.send(Buffer.of(0xff));
  expect(await events.untilClosed()).toMatchObject({ code: 1008 });
  expect(events.log).toEqual(['closed']);
});

test('sends nothing after the close frame that answers the peer', async () => {
  const server = await listen();
  const client = await rawClient(server);
  const transport = await server.accepted();
  transport.open({
    message: () => void transport.send('an answer'),
    undecodable: vi.fn(),
    drained: vi.fn(),
    ended: vi.fn(),
    closed: vi.fn(),
  });
  const received: Buffer[] = [];
  client.on('data', (chunk: Buffer) => received.push(chunk));
  client.write(Buffer.concat([frame(TEXT, 'a question'), frame(CLOSE, '')]));
  await once(client, 'end');
  expect(Buffer.concat(received)).toEqual(Buffer.of(0x80 | CLOSE, 0));
});

test('cuts off a peer that never answers a close', async () => {
  const server = await listen();
  await rawClient(server);
  const transport = await server.accepted();
  const events = RecordedEvents.of(transport);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  transport.close({ code: 1001, reason: 'going' });
  vi.advanceTimersByTime(CLOSE_TIMEOUT_MS - 1);
  await new Promise(setImmediate);
  expect(events.log).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(await events.untilClosed()).toMatchObject({ code: 1006 });
});

test('cuts off a peer that closes and keeps its connection open', async () => {
  const server = await listen();
  const peer = await rawClient(server);
  peer.allowHalfOpen = true;
  const events = RecordedEvents.of(await server.accepted());
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  peer.write(frame(CLOSE, Buffer.of(0x03, 0xe8)));
  await once(peer, 'end');
  vi.advanceTimersByTime(CLOSE_TIMEOUT_MS - 1);
  await new Promise(setImmediate);
  expect(events.log).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(await events.untilClosed()).toMatchObject({ code: 1000 });
});

test('a client leaves a server that closes and keeps the connection open', async () => {
  const server = await listen();
  const client = await connectWebSocket(server.url);
  const events = RecordedEvents.of(client);
  await server.accepted();
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const answered = vi.spyOn(Socket.prototype, 'write');
  server.sockets[0]!.write(Buffer.of(0x80 | CLOSE, 2, 0x03, 0xe9));
  answered.mockClear();
  await vi.waitFor(() => expect(answered).toHaveBeenCalled());
  vi.advanceTimersByTime(CLOSE_TIMEOUT_MS);
  expect(await events.untilClosed()).toMatchObject({ code: 1001 });
});

test('a broken connection is an abnormal end', async () => {
  const { client, events, transport } = await pair();
  client.terminate();
  expect(await events.untilClosed()).toMatchObject({ code: 1006 });
  expect(transport.send('into the void')).toBe(true);
  expect(events.log).toEqual(['closed']);
});

test('a client connects, exchanges messages and closes', async () => {
  const server = await listen();
  const client = await connectWebSocket(server.url, { headers: { 'x-test': '1' } });
  const clientEvents = RecordedEvents.of(client);
  const serverEvents = RecordedEvents.of(await server.accepted());
  client.send('hello');
  client.sendBinary(Buffer.from('binary'));
  await serverEvents.untilMessages(2);
  client.close({ code: 1000, reason: 'done' });
  expect(await serverEvents.untilClosed()).toEqual({ code: 1000, reason: 'done' });
  expect(await clientEvents.untilClosed()).toMatchObject({ code: 1000 });
});

test('a dropped client leaves without a close handshake', async () => {
  const server = await listen();
  const client = await connectWebSocket(server.url);
  RecordedEvents.of(client);
  const events = RecordedEvents.of(await server.accepted());
  client.drop();
  expect(await events.untilClosed()).toMatchObject({ code: 1006 });
});

test('connecting fails when no server listens, and when it is aborted', async () => {
  const server = await listen();
  await expect(connectWebSocket('ws://127.0.0.1:1')).rejects.toThrow('ECONNREFUSED');
  await expect(connectWebSocket(server.url, { signal: AbortSignal.abort() })).rejects.toThrow(/abort/);
  const giveUp = new AbortController();
  const pending = connectWebSocket(server.url, { signal: giveUp.signal });
  giveUp.abort();
  await expect(pending).rejects.toThrow(/closed before/);
});
