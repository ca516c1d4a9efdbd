import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { ByteBudget } from '../../../../src/base/byte-budget.ts';
import { forwardStream } from '../../../../src/relay/forward/forward-stream.ts';
import { type DataBody, decodeFrame, encodeFrame, type Segment } from '../../../../src/relay/frames/frame.ts';
import {
  MAX_MESSAGE_BYTES,
  MAX_SEGMENTS,
  MAX_STREAM_INBOUND_BYTES,
  RECORD_BYTES,
  REORDER_MAX_BYTES,
  REORDER_MAX_DISTANCE,
  RETRANSMIT_MAX_MS,
} from '../../../../src/relay/limits.ts';
import { RecordCipher } from '../../../../src/relay/noise/record-cipher.ts';
import { InboundMessages } from '../../../../src/relay/stream/inbound-messages.ts';
import { OutboundRecords } from '../../../../src/relay/stream/message-framing.ts';
import { CloseCode } from '../../../../src/transport/transport.ts';
import { FakeRegistry } from '../fake-registry.ts';
import { bodies, connectLinks, settle } from '../link-fixture.ts';
import type { Fault } from '../memory-pipe.ts';

/** A reader, and the encrypted records of its peer. */
class Peer {
  readonly budget = new ByteBudget(MAX_STREAM_INBOUND_BYTES);
  readonly inbound = new InboundMessages(new RecordCipher(Buffer.alloc(32, 5)), this.budget);
  readonly read: string[] = [];
  readonly #cipher = new RecordCipher(Buffer.alloc(32, 5));

  constructor() {
    this.inbound.open((message) => this.read.push(message.toString()));
  }

  seal(plaintext: Uint8Array, segment?: Segment): DataBody {
    return { kind: 'data', seq: this.#cipher.nextSeq, payload: this.#cipher.seal(plaintext), segment };
  }

  send(plaintext: Uint8Array, segment?: Segment) {
    return this.inbound.accept(this.seal(plaintext, segment));
  }

  /** Encrypts a message in segments that end at the given positions. */
  sealMessage(text: string, cuts: readonly number[] = []): DataBody[] {
    const pieces = cut(framed(text), cuts);
    if (pieces.length === 1) return pieces.map((piece) => this.seal(piece));
    return pieces.map((piece, index) => this.seal(piece, { index, count: pieces.length }));
  }
}

/** A message with its length prefix. */
function framed(text: string): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(Buffer.byteLength(text));
  return Buffer.concat([length, Buffer.from(text)]);
}

function cut(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const ends = [...new Set(cuts.map((at) => at % bytes.length))].filter((at) => at > 0).sort((a, b) => a - b);
  return [...ends, bytes.length].map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}

/** Messages, each with the positions where it is split into segments. */
const messages = fc.array(
  fc.record({ text: fc.string({ minLength: 1, maxLength: 30 }), cuts: fc.array(fc.nat(), { maxLength: 6 }) }),
  { minLength: 1, maxLength: 10 },
);

describe('segmented messages', () => {
  test('are joined, however they are split, reordered and repeated', () => {
    fc.assert(
      fc.property(messages, fc.array(fc.nat(), { maxLength: 100 }), fc.boolean(), (sent, order, merge) => {
        const peer = new Peer();
        const records = sent.flatMap(({ text, cuts }) => peer.sealMessage(text, cuts));
        // Messages that are not segmented may share a record.
        if (merge) records.push(peer.seal(Buffer.concat([framed('a'), framed('b')])));
        const arrivals = [...order.map((any) => records[any % records.length]!), ...records];
        // A record too far ahead is not kept, so its last arrival is in order.
        for (const record of arrivals) peer.inbound.accept(record);
        expect(peer.read).toEqual([...sent.map(({ text }) => text), ...(merge ? ['a', 'b'] : [])]);
        expect(peer.budget.bytes).toBe(0);
      }),
    );
  });

  test('are not delivered after a lost segment', () => {
    fc.assert(
      fc.property(messages, fc.nat(), (sent, which) => {
        const peer = new Peer();
        const groups = sent.map(({ text, cuts }) => peer.sealMessage(text, cuts));
        const records = groups.flat();
        const lost = which % records.length;
        for (const record of records) if (record.seq !== lost) peer.inbound.accept(record);
        const complete = groups.filter((group) => group.at(-1)!.seq < lost).length;
        expect(peer.read).toEqual(sent.slice(0, complete).map(({ text }) => text));
      }),
    );
  });

  test('end the stream, and deliver nothing wrong, when the numbers of a segment change', () => {
    const number = fc.integer({ min: 0, max: 5 });
    fc.assert(
      fc.property(messages, fc.nat(), number, number, (sent, which, index, count) => {
        const peer = new Peer();
        const texts = sent.map(({ text }) => text);
        const records = sent.flatMap(({ text, cuts }) => peer.sealMessage(text, cuts));
        const at = which % records.length;
        const { index: oldIndex, count: oldCount } = records[at]!.segment ?? { index: 0, count: 1 };
        fc.pre(oldIndex !== index || oldCount !== count);
        records[at] = { ...records[at]!, segment: { index, count } };
        const acceptAll = () => {
          for (const record of records) peer.inbound.accept(record);
        };
        expect(acceptAll).toThrow(/segment/);
        expect(peer.read).toEqual(texts.slice(0, peer.read.length));
      }),
    );
  });

  const first = framed('message').subarray(0, 5);
  const rest = framed('message').subarray(5);
  const [whole, none] = [framed('whole'), Buffer.alloc(0)];
  test.each<[string, [Buffer, number, number][], string]>([
    ['no segments', [[whole, 0, 0]], 'segment 0 of 0 is invalid'],
    ['an index beyond the count', [[whole, 2, 2]], 'segment 2 of 2 is invalid'],
    ['too many segments', [[first, 0, MAX_SEGMENTS + 1]], `segment 0 of ${MAX_SEGMENTS + 1} is invalid`],
    ['no first segment', [[rest, 1, 2]], 'segment 1 of 2 arrived instead of segment 0 of 2'],
    ['a repeated index', twice(first, 0, 2), 'segment 0 of 2 arrived instead of segment 1 of 2'],
    ['a skipped index', twice(first, 0, 3, 2, 3), 'segment 2 of 3 arrived instead of segment 1 of 3'],
    ['another count', twice(first, 0, 2, 1, 3), 'segment 1 of 3 arrived instead of segment 1 of 2'],
    [
      'a record that is not segmented',
      twice(first, 0, 2, 0, 1),
      'segment 0 of 1 arrived instead of segment 1',
    ],
    ['a message that ends too early', [[whole, 0, 2]], 'does not end with the last of its 2 segments'],
    [
      'a message that ends too late',
      twice(first, 0, 2, 1, 2),
      'does not end with the last of its 2 segments',
    ],
    [
      'a second message in the last segment',
      [
        [first, 0, 2],
        [Buffer.concat([rest, whole]), 1, 2],
      ],
      'does not end with the last of its 2 segments',
    ],
    [
      'a start inside another message',
      [
        [first, 0, 1],
        [rest, 0, 2],
      ],
      'a segmented message starts inside another message',
    ],
    ['only empty segments', twice(none, 0, 2, 1, 2), 'does not end with the last of its 2 segments'],
  ])('are refused with %s', (_name, sent, reason) => {
    const peer = new Peer();
    const sendAll = () => {
      for (const [bytes, index, count] of sent) {
        peer.send(bytes, index === 0 && count === 1 ? undefined : { index, count });
      }
    };
    expect(sendAll).toThrow(reason);
    expect(peer.read).toEqual([]);
  });

  function twice(bytes: Buffer, index: number, count: number, next = index, nextCount = count) {
    return [
      [bytes, index, count],
      [bytes.subarray(0, 1), next, nextCount],
    ] as [Buffer, number, number][];
  }
});

describe('limits of segmented messages', () => {
  test('segments of one message', () => {
    const peer = new Peer();
    const text = 'x'.repeat(MAX_SEGMENTS - 4);
    const bytes = framed(text);
    for (let index = 0; index < MAX_SEGMENTS; index++) {
      peer.send(bytes.subarray(index, index + 1), { index, count: MAX_SEGMENTS });
    }
    expect(peer.read).toEqual([text]);
  });

  test('bytes of one message', () => {
    const peer = new Peer();
    const count = Math.ceil((MAX_MESSAGE_BYTES + 4) / RECORD_BYTES);
    const bytes = Buffer.alloc(MAX_MESSAGE_BYTES + 4, 'x');
    bytes.writeUInt32BE(MAX_MESSAGE_BYTES);
    let held = 0;
    for (let index = 0; index < count; index++) {
      peer.send(bytes.subarray(index * RECORD_BYTES, (index + 1) * RECORD_BYTES), { index, count });
      held = Math.max(held, peer.budget.bytes);
      // Memory follows the bytes that have arrived.
      if (index === 3) expect(peer.budget.bytes).toBeLessThanOrEqual(8 * RECORD_BYTES);
    }
    expect(peer.read[0]?.length).toBe(MAX_MESSAGE_BYTES);
    expect(held).toBeLessThanOrEqual(MAX_MESSAGE_BYTES);
    bytes.writeUInt32BE(MAX_MESSAGE_BYTES + 1);
    expect(() => peer.send(bytes.subarray(0, 100), { index: 0, count })).toThrow('length of a message');
  });

  test('early segments', () => {
    const peer = new Peer();
    const text = 'x'.repeat(REORDER_MAX_DISTANCE - 2);
    const cuts = Array.from({ length: REORDER_MAX_DISTANCE + 1 }, (_, index) => index + 1);
    const records = peer.sealMessage(text, cuts);
    expect(records.length).toBe(REORDER_MAX_DISTANCE + 2);
    expect(peer.inbound.accept(records.at(-1)!)).toBe('beyond');
    for (const record of records.slice(1, -1).reverse()) expect(peer.inbound.accept(record)).toBe('early');
    expect(peer.inbound.accept(records[0]!)).toBe('next');
    expect(peer.read).toEqual([]);
    expect(peer.inbound.accept(records.at(-1)!)).toBe('next');
    expect(peer.read).toEqual([text]);
  });

  test('bytes of early segments', () => {
    const peer = new Peer();
    const [missing, ...records] = peer.sealMessage(
      'x'.repeat(2 * REORDER_MAX_BYTES),
      Array.from({ length: 34 }, (_, index) => (index + 1) * RECORD_BYTES),
    );
    const placements = records.map((record) => peer.inbound.accept(record));
    const early = Math.floor(REORDER_MAX_BYTES / records[0]!.payload.length);
    expect(placements.slice(0, early + 1)).toEqual([...Array(early).fill('early'), 'beyond']);
    for (const record of [missing!, ...records]) peer.inbound.accept(record);
    expect(peer.read[0]?.length).toBe(2 * REORDER_MAX_BYTES);
  });
});

test('numbers the records of a message that starts after the peer has sent a segmented one', () => {
  const outbound = new OutboundRecords();
  for (const length of [150_000, 10, 150_000]) {
    outbound.push([{ bytes: Buffer.alloc(length), released: undefined }]);
  }
  const segments = [outbound.next(false)?.segment];
  for (let record = outbound.next(true); record !== null; record = outbound.next(true)) {
    segments.push(record.segment);
  }
  const [unsplit, numbered] = [undefined, [0, 1, 2].map((index) => ({ index, count: 3 }))];
  expect(segments).toEqual([unsplit, unsplit, unsplit, unsplit, ...numbered]);
});

/** Text of three records. */
const LARGE = 'y'.repeat(150_000);

/** Numbers the records with sequence number 0 to 2: a peer that sends LARGE as its first message in segments. */
const segmenting: Fault = (frame) => {
  const decoded = decodeFrame(frame);
  const { body } = decoded;
  if (body.kind !== 'data' || body.seq > 2) return [frame];
  return [encodeFrame({ ...decoded, body: { ...body, segment: { index: body.seq, count: 3 } } })];
};

const segmentsOf = (pipe: Parameters<typeof bodies>[0]) =>
  bodies(pipe).flatMap((body) => (body.kind === 'data' ? [body.segment] : []));

describe.each([
  ['with acks', true],
  ['without acks', false],
])('a stream %s', (_name, offerAcks) => {
  test.each(['executor', 'harness'] as const)(
    'the %s answers in segments only after the first one',
    async (side) => {
      const links = await connectLinks({ harness: { offerAcks } });
      const ours =
        side === 'executor'
          ? { ...links.served, pipe: links.executorPipe, peerPipe: links.harnessPipe }
          : {
              transport: links.harness.transport,
              events: links.events,
              pipe: links.harnessPipe,
              peerPipe: links.executorPipe,
            };
      const peer = side === 'executor' ? links.harness.transport : links.served.transport;
      const peerEvents = side === 'executor' ? links.events : links.served.events;
      ours.peerPipe.fault = segmenting;
      ours.transport.send(LARGE);
      await peerEvents.untilMessages(1);
      expect(segmentsOf(ours.pipe)).toEqual([undefined, undefined, undefined]);
      peer.send(LARGE);
      await ours.events.untilMessages(1);
      ours.transport.send(LARGE);
      ours.transport.send('short');
      await peerEvents.untilMessages(3);
      expect(peerEvents.messages).toEqual([LARGE, LARGE, 'short']);
      const numbered = [0, 1, 2].map((index) => ({ index, count: 3 }));
      expect(segmentsOf(ours.pipe).slice(3)).toEqual([...numbered, undefined]);
      // Our own end has received segments too and answers alike.
      peer.send(LARGE);
      await ours.events.untilMessages(2);
      expect(segmentsOf(ours.peerPipe).slice(-3)).toEqual(numbered);
      links.harness.transport.close({ code: CloseCode.normal, reason: '' });
      await links.events.untilClosed();
    },
  );

  test('an inconsistent segment ends it with the reason', async () => {
    const { harness, harnessPipe, served, events } = await connectLinks({ harness: { offerAcks } });
    harnessPipe.fault = (frame) => {
      const decoded = decodeFrame(frame);
      const { body } = decoded;
      if (body.kind !== 'data') return [frame];
      return [encodeFrame({ ...decoded, body: { ...body, segment: { index: 1, count: 3 } } })];
    };
    harness.transport.send('message');
    const { reason } = await served.events.untilClosed();
    expect(reason).toBe('segment 1 of 3 arrived instead of segment 0 of 3');
    expect((await events.untilClosed()).reason).toBe('the peer reset the stream');
  });
});

test('retransmits a segment with its numbers', async () => {
  const { harness, harnessPipe, executorPipe, served, events } = await connectLinks();
  harnessPipe.fault = segmenting;
  harness.transport.send(LARGE);
  await served.events.untilMessages(1);
  let lost: Segment | undefined;
  executorPipe.fault = (frame) => {
    const { body } = decodeFrame(frame);
    if (body.kind !== 'data' || body.segment?.index !== 1 || lost !== undefined) return [frame];
    lost = body.segment;
    return [];
  };
  served.transport.send(LARGE);
  await events.untilMessages(1);
  expect(lost).toEqual({ index: 1, count: 3 });
  expect(segmentsOf(executorPipe).filter((segment) => segment?.index === 1)).toEqual([lost, lost]);
  expect(events.messages).toEqual([LARGE]);
  harness.transport.close({ code: CloseCode.normal, reason: '' });
  await events.untilClosed();
});

test('a segmented message arrives whole and in order when frames are dropped, doubled and delayed', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const fault = fc.constantFrom<'pass' | 'drop' | 'double' | 'delay'>(
    'pass',
    'pass',
    'drop',
    'double',
    'delay',
  );
  const sizes = fc.array(fc.constantFrom(10, 70_000, 200_000), { minLength: 2, maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(sizes, fc.array(fault, { minLength: 10, maxLength: 20 }), async (lengths, faults) => {
      const { harness, harnessPipe, executor, executorPipe, served, events } = await connectLinks();
      harnessPipe.fault = segmenting;
      harness.transport.send(LARGE);
      await served.events.untilMessages(1);
      executorPipe.fault = faulty(faults);
      const sent = lengths.map((length, index) => String(index).repeat(length));
      for (const message of sent) served.transport.send(message);
      for (let round = 0; events.messages.length < sent.length && round < 30; round++) {
        await settle();
        await vi.advanceTimersByTimeAsync(RETRANSMIT_MAX_MS);
      }
      expect(events.messages.map((message) => message.length)).toEqual(sent.map(({ length }) => length));
      expect(events.messages).toEqual(sent);
      const isSplit = lengths.some((length) => length > RECORD_BYTES);
      expect(segmentsOf(executorPipe).some((segment) => segment !== undefined)).toBe(isSplit);
      executor.link.close({ code: CloseCode.goingAway, reason: '' });
      await events.untilClosed();
    }),
    { numRuns: 25 },
  );
});

/**
 * Applies a list of faults to the records in order. A delayed record arrives after the next frame. At most three in a row do not arrive:
 * a peer that hears nothing for long gives up.
 */
function faulty(faults: readonly ('pass' | 'drop' | 'double' | 'delay')[]): Fault {
  let next = 0;
  let missing = 0;
  let late: Uint8Array[] = [];
  return (frame) => {
    const fault = decodeFrame(frame).body.kind === 'data' ? (faults[next++] ?? 'pass') : 'pass';
    const action = missing === 3 ? 'pass' : fault;
    missing = action === 'drop' || action === 'delay' ? missing + 1 : 0;
    if (action === 'delay') late.push(frame);
    if (missing > 0) return [];
    const frames = [frame, ...(action === 'double' ? [frame] : []), ...late];
    late = [];
    return frames;
  };
}

test('a gap of 65 records ends a segmented message and its stream', async () => {
  const { harness, harnessPipe, served, events } = await connectLinks({ harness: { offerAcks: false } });
  const count = REORDER_MAX_DISTANCE + 3;
  harnessPipe.fault = (frame) => {
    const decoded = decodeFrame(frame);
    const { body } = decoded;
    if (body.kind !== 'data') return [frame];
    // Frames 1 to 65 are lost.
    if (body.seq > 0 && body.seq <= REORDER_MAX_DISTANCE + 1) return [];
    return [encodeFrame({ ...decoded, body: { ...body, segment: { index: body.seq, count } } })];
  };
  harness.transport.send('z'.repeat((count - 1) * RECORD_BYTES));
  expect((await served.events.untilClosed()).reason).toBe('a record is too far ahead of its sequence');
  expect(served.events.messages).toEqual([]);
  await events.untilClosed();
});

test('a forwarder passes segmented messages on whole and answers in segments', async () => {
  const server = await FakeRegistry.open();
  const received: string[] = [];
  server.accepted = (socket) =>
    socket.open({
      frame: (bytes) => {
        received.push(Buffer.from(bytes).toString());
        socket.send(bytes);
      },
      drained: () => {},
      closed: () => {},
    });
  let forwarding: Promise<void> | null = null;
  const { harness, harnessPipe, executorPipe, events } = await connectLinks({
    executor: {
      accept: (stream) => {
        forwarding = forwardStream(stream, { url: server.url.replace('http', 'ws') });
      },
    },
  });
  onTestFinished(() => forwarding ?? undefined);
  harnessPipe.fault = segmenting;
  harness.transport.send(LARGE);
  await events.untilMessages(1);
  expect(received).toEqual([LARGE]);
  expect(events.messages).toEqual([LARGE]);
  expect(segmentsOf(executorPipe)).toEqual([0, 1, 2].map((index) => ({ index, count: 3 })));
  harness.transport.close({ code: CloseCode.normal, reason: '' });
  await settle();
});
