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

/** Keeps what it is given, and expects much from its second piece on until so many bytes have come. */
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
    // Nobody looks at it afterwards.
    chunk.fill(0);
  }
}

test('bytes are read into a buffer that all share, a larger one where much is to come', async () => {
  const [accepted, client] = await sockets();
  const sent = Buffer.from(Array.from({ length: 6_000_000 }, (_, index) => (index * 31) & 0xff));
  const keeper = new Keeper(4_000_000);
  const events: Buffer[] = [];
  // This is what tells when a Node comes that has other parts inside.
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

test('a paused socket keeps what comes until it has enough, and gives it away first', async () => {
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

test('what is no socket of the system is left alone', () => {
  const [end] = duplexPair();
  expect(readDirectly(end, new Keeper(0))).toBe(false);
});

describe('a websocket on a stream that only has events', () => {
  /** The server's end of a websocket, and what its client writes to. */
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

  test('its messages arrive, large and small', async () => {
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

  test('what it holds when it ends paused belongs to the message that was begun', async () => {
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

test("connections that are sent large messages at once do not get each other's bytes", async () => {
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

/** A text of one letter, masked. */
function largeFrame(letter: string): Buffer {
  const key = Buffer.of(1, 2, 3, 4);
  const header = Buffer.alloc(10);
  header[0] = 0x80 | TEXT!;
  header[1] = 0x80 | 127;
  header.writeBigUInt64BE(BigInt(LARGE_BYTES), 2);
  const payload = Buffer.alloc(LARGE_BYTES, letter).map((byte, index) => byte ^ key[index % 4]!);
  return Buffer.concat([header, key, payload]);
}
