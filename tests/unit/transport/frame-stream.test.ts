import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { type Duplex, duplexPair } from 'node:stream';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import {
  FRAME_COST,
  LARGE_MESSAGE_BYTES,
  NEW_PEER_MESSAGE_BYTES,
  NEW_PEER_TURN_CREDIT,
  TURN_CREDIT,
} from '../../../src/transport/limits.ts';
import type { Transport } from '../../../src/transport/transport.ts';
import { WebSocketUpgrader } from '../../../src/transport/websocket.ts';
import { randomInputs } from '../../support/random-inputs.ts';
import { waitFor } from '../../support/wait-for.ts';
import { RecordedEvents } from './recorded-events.ts';
import { CLOSE, frame, listen, PING, PONG, QUIET, rawClient, TEXT } from './websocket-peers.ts';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const REQUEST = {
  method: 'GET',
  headers: {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
  },
} as unknown as IncomingMessage;

/** Both ends of a stream in memory, with the bytes that the client receives. */
function streams(): { server: Duplex; client: Duplex; received: Buffer[] } {
  const [server, client] = duplexPair();
  const received: Buffer[] = [];
  client.on('data', (chunk: Buffer) => received.push(chunk));
  client.on('end', () => client.end());
  server.on('error', () => {});
  cleanups.push(() => {
    client.destroy();
    server.destroy();
  });
  return { server, client, received };
}

/** The server's end of a websocket, and the stream its client writes to. */
function open({ isNewPeer = false, head = Buffer.alloc(0), maxUnfinishedBytes = 10_000_000 } = {}) {
  const { server, client, received } = streams();
  const upgrader = new WebSocketUpgrader({ ...QUIET, maxMessageBytes: 10_000_000, maxUnfinishedBytes });
  let transport: Transport | null = null;
  upgrader.upgrade(REQUEST, server, head, (accepted) => {
    transport = accepted;
  });
  if (!isNewPeer) transport!.peerInitialized?.();
  return { server, client, received, transport: transport! as Transport };
}

describe('a websocket on any stream', () => {
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

  test('receives bytes that came with the upgrade request', async () => {
    const { client, transport } = open({ head: Buffer.concat([frame(TEXT, 'one'), frame(TEXT, 'two')]) });
    const events = RecordedEvents.of(transport);
    client.write(frame(TEXT, 'three'));
    await events.untilMessages(3);
    expect(events.messages).toEqual(['one', 'two', 'three']);
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

describe('turns', () => {
  // A clock that stands still, because a connection that is slow gets its credit back.
  beforeEach(() => void vi.spyOn(process, 'uptime').mockReturnValue(1));
  afterEach(() => void vi.restoreAllMocks());

  const many = (bytes: Buffer, count: number) => Buffer.concat(Array(count).fill(bytes));

  /** How many frames of a flood are handled before a message of another client that arrives at the same time. */
  async function framesAhead(isNewPeer: boolean): Promise<number> {
    const [flooding, other] = [open({ isNewPeer }), open()];
    const [flood, events] = [RecordedEvents.of(flooding.transport), RecordedEvents.of(other.transport)];
    flooding.client.write(many(frame(TEXT, 'x'), 1_000));
    other.client.write(frame(TEXT, 'other'));
    await events.untilMessages(1);
    const ahead = flood.messages.length;
    await flood.untilMessages(1_000);
    return ahead;
  }

  test('a connection handles a limited number of frames before the others', async () => {
    expect(await framesAhead(false)).toBeLessThanOrEqual(TURN_CREDIT / FRAME_COST);
  });

  test('a connection without initialize handles fewer', async () => {
    expect(NEW_PEER_TURN_CREDIT).toBeLessThan(TURN_CREDIT);
    expect(await framesAhead(true)).toBeLessThanOrEqual(NEW_PEER_TURN_CREDIT / FRAME_COST);
  });

  test.each([
    ['pings', frame(PING, '')],
    ['pongs', frame(PONG, '')],
    ['empty fragments', Buffer.of(0, 0x80, 0, 0, 0, 0)],
    ['fragments of one byte', Buffer.of(0, 0x81, 0, 0, 0, 0, 0x78)],
  ])('a flood of %s waits for its turns', async (_name, unit) => {
    const { client, transport } = open();
    const events = RecordedEvents.of(transport);
    const [count, begin, end] = [2_000, Buffer.of(1, 0x80, 0, 0, 0, 0), Buffer.of(0x80, 0x80, 0, 0, 0, 0)];
    client.write(Buffer.concat([begin, many(unit, count), end]));
    let turns = 0;
    for (; events.messages.length === 0; turns++) await new Promise(setImmediate);
    expect(turns).toBeGreaterThanOrEqual(Math.floor((count * FRAME_COST) / TURN_CREDIT));
  });

  test('a pause takes effect in the middle of a chunk, and nothing is lost', async () => {
    const { client, transport } = open();
    const events = RecordedEvents.of(transport);
    let [pauses, whilePaused] = [0, 0];
    void events.until(() => {
      if (events.messages.length % 10 !== 9) return false;
      const before = events.messages.length;
      transport.setReceiving(false);
      setImmediate(() => {
        pauses++;
        whilePaused += events.messages.length - before;
        transport.setReceiving(true);
      });
      return false;
    });
    client.write(many(frame(TEXT, 'x'), 35));
    await events.untilMessages(35);
    expect([pauses, whilePaused]).toEqual([3, 0]);
    client.write(frame(CLOSE, Buffer.of(0x03, 0xe8)));
    expect(await events.untilClosed()).toMatchObject({ code: 1000 });
  });

  test('the end of a connection comes after the messages that wait for their turn', async () => {
    const { client, transport } = open();
    const events = RecordedEvents.of(transport);
    client.end(many(frame(TEXT, 'x'), 500));
    await events.untilClosed();
    expect(events.messages).toHaveLength(500);
  });
});

describe('limits', () => {
  test('a message before initialize must be small', async () => {
    const size = NEW_PEER_MESSAGE_BYTES;
    const { client, transport, received } = open({ isNewPeer: true });
    const events = RecordedEvents.of(transport);
    client.write(largeFrame('a', size));
    await events.untilMessages(1);
    client.write(largeFrame('b', size + 1).subarray(0, 100));
    expect(await events.untilClosed()).toMatchObject({
      reason: `a message has more than ${size} bytes, the limit before initialize`,
    });
    expect(closeCodeIn(received)).toBe(1009);
    expect(events.messages).toHaveLength(1);
  });

  test('refuses the oldest of the unfinished messages when they exceed their budget together', async () => {
    const unfinished = new WebSocketUpgrader({
      ...QUIET,
      maxMessageBytes: 500_000,
      maxUnfinishedBytes: 1_000_000,
    });
    const peers = ['a', 'b', 'c'].map((letter) => {
      const { server, client, received } = streams();
      let transport: Transport | null = null;
      unfinished.upgrade(REQUEST, server, Buffer.alloc(0), (accepted) => {
        transport = accepted;
      });
      transport!.peerInitialized?.();
      return { letter, client, received, events: RecordedEvents.of(transport! as Transport) };
    });
    const [first, second, third] = peers as [(typeof peers)[0], (typeof peers)[0], (typeof peers)[0]];
    const begin = async ({ client, letter }: (typeof peers)[0], bytes: number) => {
      await new Promise((written) => client.write(largeFrame(letter, 500_000).subarray(0, bytes), written));
    };
    await begin(first, 450_000);
    await begin(second, 450_000);
    expect(first.events.closeReason).toBeNull();
    await begin(third, 200_000);
    await waitFor('the close', () => closeCodeIn(first.received) !== null);
    expect(closeCodeIn(first.received)).toBe(1013);
    expect(Buffer.concat(first.received).toString('latin1')).toContain('maxUnfinishedBytes');
    // The memory of the refused message is free again, so that the others end.
    for (const { client, letter } of [second, third]) {
      const sent = letter === 'b' ? 450_000 : 200_000;
      client.write(largeFrame(letter, 500_000).subarray(sent));
    }
    await second.events.untilMessages(1);
    await third.events.untilMessages(1);
    expect(first.events.messages).toEqual([]);
  });
});

test('gives the same messages and the same close as the library alone, for any input and any split', async () => {
  const payload = fc.oneof(
    fc.string({ maxLength: 100 }).map((words) => Buffer.from(words)),
    fc.uint8Array({ maxLength: 130 }).map((bytes) => Buffer.from(bytes)),
    fc.integer({ min: 65_000, max: 70_000 }).map((length) => Buffer.alloc(length, 'é')),
  );
  const anyFrame = fc.record({
    opcode: fc.oneof({ weight: 12, arbitrary: fc.constantFrom(0, 1, 1, 1, 2, 8, 9, 10) }, fc.nat(15)),
    payload,
    isFinal: fc.oneof({ weight: 3, arbitrary: fc.constant(true) }, fc.boolean()),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyFrame, { minLength: 1, maxLength: 8 }),
      fc.array(fc.nat(100_000), { maxLength: 6 }),
      async (frames, offsets) => {
        const bytes = Buffer.concat(frames.map(encoded));
        const ends = [...offsets.map((offset) => offset % bytes.length), bytes.length].sort((a, b) => a - b);
        const chunks = ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
        expect(await behaviour(chunks, 'stream')).toEqual(await behaviour(chunks, 'library'));
      },
    ),
    { numRuns: randomInputs(150) },
  );
}, 60_000);

/** The messages that a server receives, and the close frame that it sends. The client ends after the last chunk. */
async function behaviour(chunks: readonly Buffer[], by: 'stream' | 'library') {
  const { server, client, received } = streams();
  const messages: string[] = [];
  const closed = new Promise<void>((resolve) => {
    if (by === 'library') {
      const upgrader = new WebSocketServer({ noServer: true, maxPayload: 10_000_000, autoPong: false });
      upgrader.handleUpgrade(REQUEST, server, Buffer.alloc(0), (ws) => {
        ws.on('error', () => {});
        ws.on('message', (data: Buffer, isBinary) => {
          if (!isBinary || Buffer.from(data.toString()).equals(data)) messages.push(data.toString());
        });
        ws.on('close', () => resolve());
      });
    } else {
      const upgrader = new WebSocketUpgrader({ ...QUIET, maxMessageBytes: 10_000_000 });
      upgrader.upgrade(REQUEST, server, Buffer.alloc(0), (transport) => {
        transport.peerInitialized?.();
        transport.open({
          message: (text) => messages.push(text),
          undecodable: () => {},
          drained: () => {},
          ended: () => {},
          closed: () => resolve(),
        });
      });
    }
  });
  for (const chunk of chunks) client.write(Buffer.from(chunk));
  // The library does not answer a violation when the client ends its stream right after it.
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  client.end();
  await closed;
  await new Promise(setImmediate);
  return { messages, closeCode: closeCodeIn(received) };
}

function encoded({
  opcode,
  payload,
  isFinal,
}: {
  opcode: number;
  payload: Buffer;
  isFinal: boolean;
}): Buffer {
  const { length } = payload;
  const header = Buffer.alloc(length < 126 ? 2 : 10);
  header[0] = (isFinal ? 0x80 : 0) | opcode;
  header[1] = 0x80 | (length < 126 ? length : 127);
  if (length >= 126) header.writeBigUInt64BE(BigInt(length), 2);
  const key = Buffer.of(9, 8, 7, 6);
  return Buffer.concat([header, key, payload.map((byte, index) => byte ^ key[index % 4]!)]);
}

/** The code of the close frame among the bytes of a server; 1005 for a close without a code, null without a close. */
function closeCodeIn(received: readonly Buffer[]): number | null {
  const all = Buffer.concat(received);
  let at = all.indexOf('\r\n\r\n') + 4;
  while (at + 1 < all.length) {
    const length = all[at + 1]!;
    if ((all[at]! & 0x0f) === CLOSE) return length >= 2 ? all.readUInt16BE(at + 2) : 1005;
    at += 2 + length;
  }
  return null;
}

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
function largeFrame(letter: string, length = LARGE_BYTES): Buffer {
  const key = Buffer.of(1, 2, 3, 4);
  const header = Buffer.alloc(10);
  header[0] = 0x80 | TEXT!;
  header[1] = 0x80 | 127;
  header.writeBigUInt64BE(BigInt(length), 2);
  const payload = Buffer.alloc(length, letter).map((byte, index) => byte ^ key[index % 4]!);
  return Buffer.concat([header, key, payload]);
}
