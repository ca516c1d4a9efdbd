import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ByteBudget } from '../../../../src/base/byte-budget.ts';
import {
  MAX_LINK_INBOUND_BYTES,
  MAX_MESSAGE_BYTES,
  MAX_STREAM_INBOUND_BYTES,
  RECORD_BYTES,
  REORDER_MAX_BYTES,
  REORDER_MAX_DISTANCE,
} from '../../../../src/relay/limits.ts';
import { RecordCipher } from '../../../../src/relay/noise/record-cipher.ts';
import { InboundMessages, ReorderWindow } from '../../../../src/relay/stream/inbound-messages.ts';
import { MessageAssembler, OutboundRecords } from '../../../../src/relay/stream/message-framing.ts';

const record = (seq: number, payload: Uint8Array) => ({ kind: 'data' as const, seq, payload });

const size = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 50 }) },
  { weight: 1, arbitrary: fc.integer({ min: RECORD_BYTES - 10, max: RECORD_BYTES + 10 }) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 300_000 }) },
);

describe('messages', () => {
  test('survive being split into records and joined again', () => {
    fc.assert(
      fc.property(fc.array(fc.array(size, { minLength: 1, maxLength: 3 }), { maxLength: 6 }), (messages) => {
        const outbound = new OutboundRecords();
        const expected: Buffer[] = [];
        let released = 0;
        for (const [index, sizes] of messages.entries()) {
          const parts = sizes.map((length) => Buffer.alloc(length, index + 1));
          outbound.push(parts.map((bytes) => ({ bytes, released: () => released++ })));
          expected.push(Buffer.concat(parts));
        }
        const assembler = new MessageAssembler();
        const read: Buffer[] = [];
        for (let record = outbound.next(false); record !== null; record = outbound.next(false)) {
          expect(record.bytes.length).toBeLessThanOrEqual(RECORD_BYTES);
          expect(record.segment).toBe(undefined);
          read.push(...assembler.push(record.bytes));
        }
        expect(read.length).toBe(expected.length);
        expect(read.every((message, index) => message.equals(expected[index]!))).toBe(true);
        expect(released).toBe(messages.flat().length);
        expect(outbound.pendingBytes).toBe(0);
        expect(assembler.heldBytes).toBe(0);
      }),
      { numRuns: 60 },
    );
  });

  test('are read from bytes that are split anywhere', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 8 }),
        fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 50 }),
        (sizes, cuts) => {
          const outbound = new OutboundRecords();
          const expected = sizes.map((length, index) => Buffer.alloc(length, index));
          for (const bytes of expected) outbound.push([{ bytes, released: undefined }]);
          const records: Buffer[] = [];
          for (let record = outbound.next(false); record !== null; record = outbound.next(false)) {
            records.push(record.bytes);
          }
          let stream = Buffer.concat(records);
          const assembler = new MessageAssembler();
          const read: Buffer[] = [];
          for (let turn = 0; stream.length > 0; turn++) {
            const cut = cuts[turn % cuts.length]!;
            read.push(...assembler.push(Buffer.from(stream.subarray(0, cut))));
            stream = stream.subarray(cut);
          }
          expect(read.map((message) => message.toString('hex'))).toEqual(
            expected.map((message) => message.toString('hex')),
          );
        },
      ),
    );
  });

  test('an announced length allocates no memory before its bytes arrive', () => {
    const assembler = new MessageAssembler();
    const length = Buffer.alloc(4);
    length.writeUInt32BE(MAX_MESSAGE_BYTES);
    expect([...assembler.push(Buffer.concat([length, Buffer.of(1)]))]).toEqual([]);
    expect(assembler.heldBytes).toBeLessThan(300_000);
  });

  test.each([0, MAX_MESSAGE_BYTES + 1, 2 ** 32 - 1])('are rejected with a length of %i', (length) => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(length);
    expect(() => [...new MessageAssembler().push(bytes)]).toThrow('the length of a message is invalid');
  });
});

describe('the reorder window', () => {
  test('delivers each record once and in order, whatever the order of arrival', () => {
    const arrivals = fc.array(fc.integer({ min: 0, max: 30 }), { maxLength: 200 });
    fc.assert(
      fc.property(arrivals, (seqs) => {
        const window = new ReorderWindow();
        const delivered: number[] = [];
        const seen = new Set<number>();
        for (const seq of seqs) {
          const placement = window.offer(record(seq, Buffer.of(seq)));
          expect(placement === 'duplicate').toBe(seen.has(seq));
          seen.add(seq);
          expect(window.has(seq)).toBe(true);
          for (let record = window.take(); record !== null; record = window.take())
            delivered.push(record.payload[0]!);
        }
        expect(delivered).toEqual(delivered.map((_, index) => index));
        expect(window.expected).toBe(delivered.length);
        expect(seen.has(window.expected)).toBe(false);
      }),
    );
  });

  test('keeps up to 64 early records and 1 MiB', () => {
    const window = new ReorderWindow();
    expect(window.offer(record(REORDER_MAX_DISTANCE + 1, Buffer.of(1)))).toBe('beyond');
    expect(window.offer(record(REORDER_MAX_DISTANCE, Buffer.of(1)))).toBe('early');
    expect(window.offer(record(1, Buffer.alloc(REORDER_MAX_BYTES - 1)))).toBe('early');
    expect(window.offer(record(2, Buffer.of(1)))).toBe('beyond');
    expect(window.offer(record(0, Buffer.alloc(1_000)))).toBe('next');
    expect(window.take()?.payload.length).toBe(1_000);
    expect(window.take()?.payload.length).toBe(REORDER_MAX_BYTES - 1);
    expect(window.offer(record(2, Buffer.of(1)))).toBe('next');
  });

  test('copies an early record out of its buffer', () => {
    const window = new ReorderWindow();
    const large = Buffer.alloc(100_000);
    window.offer(record(1, large.subarray(0, 10)));
    window.offer(record(0, Buffer.of(0)));
    window.take();
    expect(window.take()?.payload.buffer).not.toBe(large.buffer);
  });
});

describe('memory limit of queued messages', () => {
  const key = () => Buffer.alloc(32, 5);

  /** A peer that sends messages of 32 MiB to a paused reader. */
  function unread(budget: ByteBudget) {
    const inbound = new InboundMessages(new RecordCipher(key()), budget);
    const cipher = new RecordCipher(key());
    const outbound = new OutboundRecords();
    const message = Buffer.alloc(MAX_MESSAGE_BYTES / 2, 'x');
    const send = () => {
      outbound.push([{ bytes: message, released: undefined }]);
      for (let plaintext = outbound.next(false); plaintext !== null; plaintext = outbound.next(false)) {
        inbound.accept(record(cipher.nextSeq, cipher.seal(plaintext.bytes)));
      }
    };
    return { inbound, send };
  }

  test('of one stream', () => {
    const { inbound, send } = unread(new ByteBudget(MAX_LINK_INBOUND_BYTES));
    for (let bytes = 0; bytes < MAX_STREAM_INBOUND_BYTES; bytes += MAX_MESSAGE_BYTES / 2) send();
    expect(send).toThrow('exceed the memory limit');
    inbound.stop();
  });

  test('of all streams together, until messages are read or streams end', () => {
    const budget = new ByteBudget(MAX_MESSAGE_BYTES);
    const [first, second] = [unread(budget), unread(budget)];
    first.send();
    second.send();
    expect(first.send).toThrow('exceed the memory limit');
    first.inbound.stop();
    let read = 0;
    second.inbound.open(({ length }) => {
      read += length;
    });
    expect(read).toBe(MAX_MESSAGE_BYTES / 2);
    const third = unread(budget);
    third.send();
    third.send();
    expect(third.send).toThrow('exceed the memory limit');
  });
});
