import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FRAME_CONTENT_BYTES, MESSAGE_HEAD_BYTES } from '../../../../src/sandbox/files/limits.ts';
import {
  type ByteSink,
  FrameReader,
  FrameWriter,
  type Message,
  MessageKind,
} from '../../../../src/sandbox/files/wire/frames.ts';
import { HelperChannel } from '../../../../src/sandbox/files/wire/helper-channel.ts';

/** A sink that accepts writes when the test says so. */
class HeldSink implements ByteSink {
  readonly written: Buffer[] = [];
  readonly #waiting: ((error: Error | null) => void)[] = [];

  write(bytes: Uint8Array, done: (error: Error | null) => void): void {
    this.written.push(Buffer.from(bytes));
    this.#waiting.push(done);
  }

  take(error: Error | null = null): void {
    for (const done of this.#waiting.splice(0)) done(error);
  }

  takeAll(): Buffer {
    while (this.#waiting.length > 0) this.take();
    return Buffer.concat(this.written);
  }
}

function encode(messages: readonly Omit<Message, never>[]): Buffer {
  const sink = new HeldSink();
  const writer = new FrameWriter(sink, () => {});
  for (const { kind, operation, head, content } of messages) writer.send(kind, operation, head, content);
  return sink.takeAll();
}

function decode(pieces: readonly Buffer[]): Message[] {
  const messages: Message[] = [];
  const reader = new FrameReader(
    (_kind, _operation, length) => Buffer.alloc(length),
    (message) => messages.push(message),
  );
  for (const piece of pieces) reader.push(piece);
  return messages;
}

function request(operation: number, head: unknown, content = Buffer.alloc(0)): Message {
  return { kind: MessageKind.request, operation, head, content };
}

describe('frames', () => {
  test('decodes messages from chunks of any size', () => {
    const message = fc.record({
      kind: fc.constantFrom(...Object.values(MessageKind)),
      head: fc.jsonValue(),
      size: fc.oneof(fc.constant(0), fc.nat(2_000), fc.constant(FRAME_CONTENT_BYTES), fc.constant(700_000)),
    });
    const cuts = fc.array(fc.integer({ min: 1, max: 100_000 }), { minLength: 1 });
    fc.assert(
      fc.property(fc.array(message, { maxLength: 6 }), cuts, (list, sizes) => {
        const sent = list.map(({ kind, head, size }, index) => ({
          kind,
          operation: index,
          head: JSON.parse(JSON.stringify(head)) as unknown,
          content: Buffer.alloc(size, index + 1),
        }));
        const bytes = encode(sent);
        const pieces: Buffer[] = [];
        for (let start = 0, turn = 0; start < bytes.length; turn++) {
          const size = sizes[turn % sizes.length]!;
          pieces.push(bytes.subarray(start, start + size));
          start += size;
        }
        const received = decode(pieces).sort((a, b) => a.operation - b.operation);
        expect(received.map(({ kind, operation, head }) => ({ kind, operation, head }))).toEqual(
          sent.map(({ kind, operation, head }) => ({ kind, operation, head })),
        );
        for (const [index, { content }] of received.entries()) {
          expect(content.equals(sent[index]!.content)).toBe(true);
        }
      }),
      { numRuns: 40 },
    );
  });

  test('a short message overtakes a long one', () => {
    const bytes = encode([request(1, 'long', Buffer.alloc(FRAME_CONTENT_BYTES * 4)), request(2, 'short')]);
    expect(decode([bytes]).map(({ head }) => head)).toEqual(['short', 'long']);
  });

  test('combines small messages into one write', () => {
    const sink = new HeldSink();
    const writer = new FrameWriter(sink, () => {});
    for (let index = 0; index < 100; index++) writer.send(MessageKind.answer, index, index);
    expect(sink.written).toHaveLength(1);
    sink.take();
    expect(sink.written).toHaveLength(2);
    expect(decode(sink.written)).toHaveLength(100);
  });

  test('applies the back-pressure of the sink', () => {
    const sink = new HeldSink();
    const writer = new FrameWriter(sink, () => {});
    for (let index = 0; index < 64; index++) {
      writer.send(MessageKind.answer, index, null, Buffer.alloc(1024 * 1024));
    }
    expect(Buffer.concat(sink.written).length).toBeLessThan(2 * FRAME_CONTENT_BYTES);
    expect(writer.queuedBytes).toBeGreaterThan(63 * 1024 * 1024);
    let progressed = false;
    writer.onceProgressed(() => {
      progressed = true;
    });
    sink.take();
    expect(progressed).toBe(true);
    sink.takeAll();
    expect(writer.queuedBytes).toBe(0);
  });

  test('an abort does not overtake the rest of its request', () => {
    const sink = new HeldSink();
    const writer = new FrameWriter(sink, () => {});
    writer.send(MessageKind.request, 1, 'long', Buffer.alloc(3 * FRAME_CONTENT_BYTES));
    writer.send(MessageKind.request, 2, 'other', Buffer.alloc(2 * FRAME_CONTENT_BYTES));
    writer.send(MessageKind.abort, 1, null);
    const messages = decode([sink.takeAll()]);
    const aboutFirst = messages.filter(({ operation }) => operation === 1);
    expect(aboutFirst.map(({ kind }) => kind)).toEqual([MessageKind.request, MessageKind.abort]);
    expect(writer.queuedBytes).toBe(0);
  });

  test('reports a request as sent when the sink has accepted all of it, or has failed', () => {
    const sent: string[] = [];
    const send = (error: Error | null) => {
      const sink = new HeldSink();
      const writer = new FrameWriter(sink, () => {});
      writer.onceSent(7, () => sent.push('unknown'));
      writer.send(MessageKind.request, 7, 'long', Buffer.alloc(3 * FRAME_CONTENT_BYTES));
      writer.onceSent(7, () => sent.push('sent'));
      sink.take();
      sink.take();
      expect(sent.splice(0)).toEqual(['unknown']);
      sink.take(error);
      expect(sent.splice(0)).toEqual(['sent']);
    };
    send(null);
    send(new Error('broken'));
  });

  test('holds back an early answer until the request is sent', async () => {
    const sink = new HeldSink();
    const channel = new HelperChannel(
      sink,
      () => {},
      () => {},
    );
    let isDone = false;
    const content = Buffer.alloc(3 * FRAME_CONTENT_BYTES);
    const answer = channel.request(['stat'] as never, { content }).then(() => {
      isDone = true;
    });
    await new Promise(setImmediate);
    const operation = Buffer.concat(sink.written).readUInt32LE(5);
    channel.receive(encode([{ kind: MessageKind.answer, operation, head: null, content: Buffer.alloc(0) }]));
    await new Promise(setImmediate);
    expect(isDone).toBe(false);
    sink.takeAll();
    await answer;
  });

  test('reports a failed sink once and drops the queue', () => {
    const sink = new HeldSink();
    const failures: Error[] = [];
    const writer = new FrameWriter(sink, (error) => failures.push(error));
    for (let index = 0; index < 5; index++) {
      writer.send(MessageKind.answer, index, null, Buffer.alloc(1024 * 1024));
    }
    sink.take(new Error('broken'));
    expect(failures.map(({ message }) => message)).toEqual(['broken']);
    expect(writer.queuedBytes).toBe(0);
  });

  test('does not send a head that is too long', () => {
    const writer = new FrameWriter(new HeldSink(), () => {});
    expect(() => writer.send(MessageKind.request, 1, 'x'.repeat(MESSAGE_HEAD_BYTES))).toThrow('too long');
  });

  const good = encode([request(1, 'head', Buffer.from('content'))]);
  const long = encode([request(1, 'head', Buffer.alloc(FRAME_CONTENT_BYTES + 10))]);
  test.each<[string, Buffer]>([
    ['an unknown kind', changed(good, (bytes) => bytes.writeUInt8(99, 4))],
    ['a frame that is too short', changed(good, (bytes) => bytes.writeUInt32LE(6, 0))],
    ['a length of nothing', changed(good, (bytes) => bytes.writeUInt32LE(0, 0))],
    ['a head that is too long', changed(good, (bytes) => bytes.writeUInt32LE(MESSAGE_HEAD_BYTES + 1, 9))],
    ['more content than was announced', changed(good, (bytes) => bytes.writeUInt32LE(3, 13))],
    ['a head that is no JSON', changed(good, (bytes) => bytes.write('x', 17))],
    ['a frame that continues nothing', changed(good, (bytes) => bytes.writeUInt8(6, 4))],
    ['a message in the middle of another of its operation', Buffer.concat([firstFrame(long), good])],
    ['a frame that is too long', changed(long, (bytes) => bytes.writeUInt32LE(bytes.readUInt32LE(0) + 1, 0))],
  ])('rejects %s', (_name, bytes) => {
    expect(() => decode([bytes])).toThrow(expect.objectContaining({ name: 'FrameError' }));
  });
});

function changed(bytes: Buffer, change: (bytes: Buffer) => void): Buffer {
  const copy = Buffer.from(bytes);
  change(copy);
  return copy;
}

function firstFrame(bytes: Buffer): Buffer {
  return bytes.subarray(0, 4 + bytes.readUInt32LE(0));
}
