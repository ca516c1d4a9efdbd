import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { REORDER_MAX_BYTES, REORDER_MAX_EVENTS } from '../../../../src/client/limits.ts';
import { InconsistentPageError } from '../../../../src/client/process/event-order.ts';
import { closed, exited, order, output, page } from './event-order-fixture.ts';

describe('EventOrder.insert', () => {
  test('publishes events in order, each once, and nothing after the end', () => {
    const { subject, published } = order(
      output(2),
      output(1),
      output(2),
      exited(4),
      output(1),
      output(3),
      closed(6),
      output(7),
      output(5),
    );
    expect(published).toEqual([output(1), output(2), output(3), exited(4), output(5), closed(6)]);
    subject.insert(output(7));
    subject.merge(page(20, [19]));
    expect(published).toHaveLength(6);
    expect(subject.waiting).toBe(false);
  });

  test('publishes all events for any arrival order and repetition', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 30 }).chain((outputs) => {
          const total = outputs + 2;
          return fc.record({
            exitSeq: fc.integer({ min: 1, max: total - 1 }),
            total: fc.constant(total),
            arrivals: fc.shuffledSubarray(
              Array.from({ length: total * 2 }, (_, index) => (index % total) + 1),
              { minLength: total * 2 },
            ),
          });
        }),
        ({ exitSeq, total, arrivals }) => {
          const event = (seq: number) =>
            seq === total ? closed(seq) : seq === exitSeq ? exited(seq) : output(seq);
          const { subject, published } = order();
          for (const seq of arrivals) subject.insert(event(seq));
          expect(published).toEqual(Array.from({ length: total }, (_, index) => event(index + 1)));
        },
      ),
    );
  });

  test('buffers a limited number of events and bytes, and always accepts the missing one', () => {
    const many = order();
    for (let seq = 2; seq < REORDER_MAX_EVENTS + 2; seq++)
      expect(many.subject.insert(output(seq))).toBe(true);
    expect(many.subject.insert(output(REORDER_MAX_EVENTS + 2))).toBe(false);
    expect(many.subject.insert(output(3))).toBe(true);
    expect(many.subject.insert(output(1))).toBe(true);
    expect(many.published).toHaveLength(REORDER_MAX_EVENTS + 1);
    expect(many.subject.insert(output(REORDER_MAX_EVENTS + 3))).toBe(true);

    const large = order(output(2, 'x'.repeat(REORDER_MAX_BYTES)));
    expect(large.subject.insert(output(3, 'y'))).toBe(false);
    expect(large.subject.insert(exited(4))).toBe(true);
    expect(large.subject.insert(output(1, 'z'.repeat(REORDER_MAX_BYTES + 1)))).toBe(true);
    expect(large.published.map((event) => event.type)).toEqual(['output', 'output']);
    expect(large.subject.insert(output(3, 'y'))).toBe(true);
    expect(large.published).toHaveLength(4);
  });

  test('accepts events above the byte limit only in their turn', () => {
    const { subject } = order();
    expect(subject.insert(output(2, 'x'.repeat(REORDER_MAX_BYTES + 1)))).toBe(false);
    expect(subject.insert(output(1, 'x'.repeat(REORDER_MAX_BYTES + 1)))).toBe(true);
  });
});

describe('EventOrder.merge', () => {
  test('fills in missed events, once and in order', () => {
    const { subject, published } = order(output(1), output(2));
    subject.merge(page(6, [2, 3, 4, 5]));
    subject.insert(output(4));
    subject.insert(output(6));
    expect(published).toEqual([1, 2, 3, 4, 5, 6].map((seq) => output(seq)));
  });

  test('ignores a page without new events', () => {
    const { subject, published } = order(output(1), output(2));
    subject.merge(page(3, [1, 2]));
    subject.merge(page(1, []));
    expect(published).toHaveLength(2);
  });

  test('publishes an exit and output after it', () => {
    const { subject, published } = order(output(1));
    subject.merge(page(6, [2, 4], { exited: true, exitCode: 7, closed: true }));
    expect(published).toEqual([output(1), output(2), exited(3, 7), output(4), closed(5)]);
  });

  test('places the exit between two chunks, or after the output', () => {
    const between = order(output(1));
    between.subject.merge(page(4, [3], { exited: true, exitCode: 1, sandboxDenied: true }));
    expect(between.published).toEqual([output(1), exited(2, 1, true), output(3)]);
    const behind = order(output(1));
    behind.subject.merge(page(4, [2], { exited: true, exitCode: 1 }));
    expect(behind.published).toEqual([output(1), output(2), exited(3, 1)]);
  });

  test('releases newer events that arrived first', () => {
    const { subject, published } = order(output(1), output(6), exited(7));
    subject.merge(page(6, [2, 3, 4, 5]));
    expect(published).toEqual([1, 2, 3, 4, 5, 6].map((seq) => output(seq)).concat(exited(7)));
  });

  test('accepts more events than the buffer holds', () => {
    const { subject, published } = order(output(1));
    const seqs = Array.from({ length: 1000 }, (_, index) => index + 2);
    subject.merge(page(1002, seqs));
    expect(published).toHaveLength(1001);
    expect(subject.waiting).toBe(false);
  });

  test('adds sandboxDenied to a buffered exit', () => {
    const { subject, published } = order(exited(3, 1), output(4));
    subject.merge(page(4, [1, 2], { exited: true, exitCode: 1, sandboxDenied: true }));
    expect(published).toEqual([output(1), output(2), exited(3, 1, true), output(4)]);
  });

  test('keeps a buffered exit after the end of the page unchanged', () => {
    const { subject, published } = order(exited(4, 1), closed(5));
    subject.merge(page(3, [1, 2], { sandboxDenied: true }));
    expect(published).toEqual([output(1), output(2)]);
    subject.insert(output(3));
    expect(published.slice(2)).toEqual([output(3), exited(4, 1), closed(5)]);
  });

  test.each([
    ['a failure', page(3, [1], { failure: 'broken' }), 'broken'],
    ['output behind its end', page(2, [2]), 'is after the end'],
    [
      'output in the place of the end',
      page(3, [1, 2], { closed: true, exited: true, exitCode: 0 }),
      'and another event',
    ],
    ['no place for the exit', page(3, [1, 2], { exited: true, exitCode: 0 }), 'no event is missing'],
    ['an exit without a code', page(3, [1], { exited: true }), 'without an exit code'],
  ])('rejects %s and changes nothing', (_name, bad, message) => {
    const { subject, published } = order(output(4));
    expect(() => subject.merge(bad)).toThrow(InconsistentPageError);
    expect(() => subject.merge(bad)).toThrow(message);
    expect(published).toEqual([]);
    subject.merge(page(4, [1, 2, 3]));
    expect(published).toHaveLength(4);
  });

  test('rejects an end at the sequence number of another buffered event', () => {
    const { subject } = order(output(3));
    expect(() => subject.merge(page(4, [1], { closed: true, exited: true, exitCode: 0 }))).toThrow(
      'and another event',
    );
  });
});
