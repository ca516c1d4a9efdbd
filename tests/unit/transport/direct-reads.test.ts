import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { afterEach, describe, expect, test } from 'vitest';
import { type ReadTarget, readDirectly } from '../../../src/transport/direct-reads.ts';
import { LARGE_MESSAGE_BYTES, LARGE_READ_BYTES, SHARED_READ_BYTES } from '../../../src/transport/limits.ts';
import type { Transport } from '../../../src/transport/transport.ts';
import { WebSocketUpgrader } from '../../../src/transport/websocket.ts';
import { waitFor } from '../../support/wait-for.ts';
import { RecordedEvents } from './recorded-events.ts';
import { frame, listen, QUIET, rawClient, TEXT } from './websocket-peers.ts';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Two ends of a connection, the first one accepted. */
async function sockets(): Promise<[Socket, Socket]> {
  const server = createServer({ pauseOnConnect: true });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [accepted] = (await once(server, 'connection')) as [Socket];
  cleanups.push(() => {
    client.destroy();
    accepted.destroy();
    server.close();
  });
  return [accepted, client];
}

/** Records its chunks, and expects a large message from the second one until this many bytes have arrived. */
class Keeper implements ReadTarget {
  readonly taken: Buffer[] = [];
  readonly #muchBytes: number;

  constructor(muchBytes: number) {
    this.#muchBytes = muchBytes;
  }

  get expectsLarge(): boolean {
    return this.taken.length > 0 && this.bytes.length < this.#muchBytes;
  }

  get bytes(): Buffer {
    return Buffer.concat(this.taken);
  }

  take(chunk: Buffer): void {
    this.taken.push(Buffer.from(chunk));
    // Simulates that the bytes are not used afterwards.
    chunk.fill(0);
  }
}

test('reads into a shared buffer, and into a larger one for large messages', async () => {
  const [accepted, client] = await sockets();
  const sent = Buffer.from(Array.from({ length: 6_000_000 }, (_, index) => (index * 31) & 0xff));
  const keeper = new Keeper(4_000_000);
  const events: Buffer[] = [];
  // Fails when a new version of Node has other internals.
  expect(readDirectly(accepted, keeper)).toBe(true);
  accepted.on('data', (chunk: Buffer) => events.push(chunk));
  accepted.resume();
  client.end(sent);
  await once(accepted, 'end');
  expect(keeper.bytes.equals(sent)).toBe(true);
  expect(events).toEqual([]);
  let at = 0;
  for (const { length } of keeper.taken) {
    const isMuch = at > 0 && at < 4_000_000;
    expect(length).toBeLessThanOrEqual(isMuch ? LARGE_READ_BYTES : SHARED_READ_BYTES);
    at += length;
  }
  expect(Math.max(...keeper.taken.map(({ length }) => length))).toBeGreaterThan(SHARED_READ_BYTES);
});

test('a paused socket buffers data up to its limit, and delivers it first', async () => {
  const [accepted, client] = await sockets();
  const keeper = new Keeper(0);
  readDirectly(accepted, keeper);
  accepted.on('data', (chunk: Buffer) => keeper.take(chunk));
  accepted.resume();
  client.write('first');
  await waitFor('the first bytes', () => keeper.taken.length === 1);
  accepted.pause();
  accepted.read(0);
  const sent = Buffer.from(Array.from({ length: 3_000_000 }, (_, index) => (index * 31) & 0xff));
  client.write(sent);
  await waitFor('a full buffer', () => accepted.readableLength >= accepted.readableHighWaterMark);
  const other = await sockets();
  const arrived = once(other[1], 'data');
  other[0].write('a sign that the loop went round');
  await arrived;
  expect(accepted.readableLength).toBeLessThan(accepted.readableHighWaterMark + SHARED_READ_BYTES);
  expect(keeper.taken).toHaveLength(1);
  accepted.resume();
  client.end();
  await once(accepted, 'end');
  expect(keeper.bytes.equals(Buffer.concat([Buffer.from('first'), sent]))).toBe(true);
});

test('does not change a stream that is not a system socket', () => {
  const [end] = duplexPair();
  expect(readDirectly(end, new Keeper(0))).toBe(false);
});

describe('a websocket on a stream without direct reads', () => {
  /** The server's end of a websocket, and the stream its client writes to. */
  function open() {
    const [server, client] = duplexPair();
    const headers = {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
    };
    const request = { method: 'GET', headers } as unknown as IncomingMessage;
    const upgrader = new WebSocketUpgrader({ ...QUIET, maxMessageBytes: 10_000_000 });
    let transport: Transport | null = null;
    upgrader.upgrade(request, server, Buffer.alloc(0), (accepted) => {
      transport = accepted;
    });
    client.on('data', () => {});
    cleanups.push(() => {
      client.destroy();
      server.destroy();
    });
    return { server, client, transport: transport! as Transport };
  }

  test('receives large and small messages', async () => {
    const { client, transport } = open();
    const events = RecordedEvents.of(transport);
    const large = largeFrame('x');
    client.write(frame(TEXT, 'before'));
    client.write(large.subarray(0, 70_000));
    client.write(large.subarray(70_000));
    client.write(frame(TEXT, 'behind'));
    await events.untilMessages(3);
    expect(events.messages).toEqual(['before', 'x'.repeat(LARGE_BYTES), 'behind']);
  });

  test('completes a message with the data that it holds when it ends while paused', async () => {
    const { server, client, transport } = open();
    const events = RecordedEvents.of(transport);
    const large = largeFrame('y');
    client.write(large.subarray(0, 70_000));
    await waitFor('the first half', () => server.readableLength === 0);
    transport.setReceiving(false);
    client.write(Buffer.concat([large.subarray(70_000), frame(TEXT, 'behind')]));
    await waitFor('the second half', () => server.readableLength > 0);
    server.destroy();
    await events.untilClosed();
    expect(events.messages).toEqual(['y'.repeat(LARGE_BYTES), 'behind']);
    expect(events.closeReason).toEqual({ code: 1006, reason: '' });
  });
});

test('concurrent large messages on several connections do not mix', async () => {
  const server = await listen({ maxMessageBytes: 10_000_000 });
  const letters = ['a', 'b', 'c', 'd'];
  const clients: Socket[] = [];
  const events: RecordedEvents[] = [];
  for (const _ of letters) {
    clients.push(await rawClient(server));
    events.push(RecordedEvents.of(await server.accepted()));
  }
  const frames = letters.map((letter) => largeFrame(letter));
  for (let at = 0; at < frames[0]!.length; at += 50_000) {
    for (const [index, client] of clients.entries()) client.write(frames[index]!.subarray(at, at + 50_000));
    await new Promise(setImmediate);
  }
  for (const [index, letter] of letters.entries()) {
    await events[index]!.untilMessages(1);
    expect(events[index]!.messages).toEqual([letter.repeat(LARGE_BYTES)]);
  }
});

const LARGE_BYTES = 5 * LARGE_MESSAGE_BYTES;

/** A masked text of one letter. */
function largeFrame(letter: string): Buffer {
  const key = Buffer.of(1, 2, 3, 4);
  const header = Buffer.alloc(10);
  header[0] = 0x80 | TEXT!;
  header[1] = 0x80 | 127;
  header.writeBigUInt64BE(BigInt(LARGE_BYTES), 2);
  const payload = Buffer.alloc(LARGE_BYTES, letter).map((byte, index) => byte ^ key[index % 4]!);
  return Buffer.concat([header, key, payload]);
}
