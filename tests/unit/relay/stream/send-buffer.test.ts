import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MAX_UNACKNOWLEDGED_BYTES, MAX_UNACKNOWLEDGED_RECORDS } from '../../../../src/relay/limits.ts';
import { SendBuffer } from '../../../../src/relay/stream/send-buffer.ts';

const record = (seq: number) => Buffer.from(`record ${seq}`);

function filled(count: number): SendBuffer {
  const buffer = new SendBuffer();
  for (let seq = 0; seq < count; seq++) buffer.add(record(seq));
  return buffer;
}

function repeats(buffer: SendBuffer): number[] {
  const seqs: number[] = [];
  for (let next = buffer.takeRetransmit(); next !== null; next = buffer.takeRetransmit()) {
    expect(Buffer.from(next.payload)).toEqual(record(next.seq));
    seqs.push(next.seq);
  }
  return seqs;
}

describe('acks', () => {
  test('remove acknowledged records and report progress once', () => {
    const buffer = filled(3);
    expect(buffer.acknowledge(1, 0)).toBe(true);
    expect(buffer.acknowledge(1, 0)).toBe(false);
    expect(buffer.acknowledge(0, 0)).toBe(false);
    expect(buffer.empty).toBe(false);
    expect(buffer.acknowledge(2, 0)).toBe(true);
    expect(buffer.empty).toBe(true);
    expect(repeats(buffer)).toEqual([]);
  });

  test('with gaps retransmit the missing records once', () => {
    const buffer = filled(8);
    buffer.acknowledge(0, 0b10110);
    expect(repeats(buffer)).toEqual([1, 4]);
    buffer.acknowledge(0, 0b10110);
    expect(repeats(buffer)).toEqual([]);
    buffer.timedOut();
    expect(repeats(buffer)).toEqual([1]);
  });

  test('cover 32 bits', () => {
    const buffer = filled(40);
    buffer.acknowledge(0, 2 ** 31);
    expect(repeats(buffer)).toEqual(Array.from({ length: 31 }, (_, index) => index + 1));
  });

  test('for records that were never sent are rejected', () => {
    for (const ack of [3, 2 ** 32 - 1]) expect(() => filled(3).acknowledge(ack, 0)).toThrow('never sent');
    expect(() => filled(3).resumeAt(4)).toThrow('never sent');
  });
});

test('limits records and bytes', () => {
  const buffer = filled(MAX_UNACKNOWLEDGED_RECORDS - 1);
  expect(buffer.full).toBe(false);
  buffer.add(record(MAX_UNACKNOWLEDGED_RECORDS - 1));
  expect(buffer.full).toBe(true);
  buffer.acknowledge(0, 0);
  expect(buffer.full).toBe(false);
  const large = new SendBuffer();
  large.add(Buffer.alloc(MAX_UNACKNOWLEDGED_BYTES));
  expect(large.full).toBe(true);
});

test('doubles the retransmitted records with each ack after a timeout', () => {
  const buffer = filled(20);
  buffer.timedOut();
  expect(repeats(buffer)).toEqual([0]);
  buffer.acknowledge(0, 0);
  expect(repeats(buffer)).toEqual([1, 2]);
  buffer.acknowledge(2, 0);
  expect(repeats(buffer)).toEqual([3, 4, 5, 6]);
  buffer.acknowledge(6, 0);
  expect(repeats(buffer)).toEqual([7, 8, 9, 10, 11, 12, 13, 14]);
});

test('retransmits the first record when all have arrived but none is acknowledged', () => {
  const buffer = filled(3);
  buffer.acknowledge(0, 0b11);
  buffer.timedOut();
  expect(repeats(buffer)).toEqual([1]);
});

test('a resume retransmits all records from its position; an outdated one changes nothing else', () => {
  const buffer = filled(5);
  buffer.acknowledge(0, 0b100);
  expect(repeats(buffer)).toEqual([1, 2]);
  buffer.resumeAt(2);
  expect(repeats(buffer)).toEqual([2, 3, 4]);
  buffer.resumeAt(0);
  expect(repeats(buffer)).toEqual([2, 3, 4]);
  buffer.resumeAt(5);
  expect(buffer.empty).toBe(true);
});

test('never removes a record that no ack acknowledges', () => {
  const uint32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });
  const steps = fc.array(fc.tuple(fc.integer({ min: 0, max: 30 }), uint32), { maxLength: 20 });
  fc.assert(
    fc.property(steps, (acks) => {
      const buffer = filled(31);
      let acknowledged = -1;
      for (const [ack, bits] of acks) {
        buffer.acknowledge(ack, bits);
        acknowledged = Math.max(acknowledged, ack);
      }
      buffer.resumeAt(0);
      const left = Array.from({ length: 30 - acknowledged }, (_, index) => acknowledged + 1 + index);
      expect(repeats(buffer).sort((a, b) => a - b)).toEqual(left);
    }),
  );
});
