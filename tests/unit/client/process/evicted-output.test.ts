import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  EventOrder,
  type OrderedEvent,
  type SequencedEvent,
} from '../../../../src/client/process/event-order.ts';
import { OutputLog } from '../../../../src/process/output-log.ts';
import { closed, exited, lost, order, output, page, position } from './event-order-fixture.ts';

describe('evicted output', () => {
  test('is published as lost, and the process continues', () => {
    const { subject, published } = order(output(1));
    expect(subject.hasGap(page(323, [321, 322]))).toBe(true);
    expect(subject.hasGap(page(4, [2, 3]))).toBe(false);
    subject.merge(page(323, [321, 322]));
    subject.insert(output(323));
    expect(published).toEqual([output(1), lost(2, 320), output(321), output(322), output(323)]);
  });

  test('does not hide the exit: a gap after retained output is the exit', () => {
    const { subject, published } = order(output(1));
    subject.merge(page(9, [4, 5, 7], { exited: true, exitCode: 3, closed: true }));
    expect(published).toEqual([
      output(1),
      lost(2, 3),
      output(4),
      output(5),
      exited(6, 3),
      output(7),
      closed(8),
    ]);
  });

  test('may contain the exit, which is then placed last', () => {
    const { subject, published } = order(output(1));
    subject.merge(page(6, [5], { exited: true, exitCode: 3 }));
    expect(published).toEqual([output(1), lost(2, 3), exited(4, 3), output(5)]);
  });

  test('may be all output', () => {
    const { subject, published } = order();
    subject.merge(page(2 ** 50, [], { exited: true, exitCode: 3, closed: true }));
    expect(published).toEqual([lost(1, 2 ** 50 - 3), exited(2 ** 50 - 2, 3), closed(2 ** 50 - 1)]);
  });

  test('has a size when the position is known, even after a gap of unknown size', () => {
    const { subject, published } = order(output(1, 'abcd'));
    subject.merge(page(10, [9]), position(4 + 3 + 1000));
    expect(published[1]).toEqual(lost(2, 8, 1000));
    subject.merge(page(20, [19]));
    expect(published[3]).toEqual(lost(10, 18));
    subject.merge(page(30, [29]), position(5000));
    expect(published[5]).toEqual(lost(20, 28));
    subject.merge(page(40, [39]), position(5100));
    expect(published[7]).toEqual(lost(30, 38, 96));
  });

  test('has no size when the position is too small', () => {
    const { subject, published } = order(output(1, 'abcd'));
    subject.merge(page(10, [9]), position(2));
    expect(published[1]).toEqual(lost(2, 8));
  });

  test('has a size per stream, counted in the last gap before the next output of the stream', () => {
    const { subject, published } = order(output(1, 'abcd'));
    const chunk = (seq: number, stream: 'stdout' | 'stderr') => ({ seq, stream, bytes: Buffer.from('xy') });
    const chunks = [chunk(5, 'stderr'), chunk(9, 'stdout'), chunk(12, 'stderr')];
    const streamBytes = { stdout: 4 + 100 + 2, stderr: 70 + 4, pty: 0 };
    subject.merge({ ...page(13, []), chunks }, { streamBytes, exitSeq: null });
    const sizes = published.flatMap((event) => (event.type === 'lost' ? [event] : []));
    expect(sizes).toEqual([
      { type: 'lost', fromSeq: 2, toSeq: 4, bytes: 70, streamBytes: { stdout: 0, stderr: 70, pty: 0 } },
      { type: 'lost', fromSeq: 6, toSeq: 8, bytes: 100, streamBytes: { stdout: 100, stderr: 0, pty: 0 } },
      { type: 'lost', fromSeq: 10, toSeq: 11, bytes: 0, streamBytes: { stdout: 0, stderr: 0, pty: 0 } },
    ]);
  });

  test('is counted in a later page when the position of a stream is not known yet', () => {
    const { subject, published } = order(output(1, 'abcd'));
    const stderr = { seq: 5, stream: 'stderr' as const, bytes: Buffer.from('xy') };
    subject.merge(
      { ...page(6, []), chunks: [stderr] },
      { streamBytes: { stdout: null, stderr: 2, pty: 0 }, exitSeq: null },
    );
    subject.merge(page(10, [9]), { streamBytes: { stdout: 57, stderr: 2, pty: 0 }, exitSeq: null });
    expect(published).toMatchObject([{ seq: 1 }, lost(2, 4, 0), { seq: 5 }, lost(6, 8, 50), output(9)]);
  });

  test('has a size that includes output which waits for an earlier event', () => {
    const { subject, published } = order(output(5));
    subject.merge(page(10, [9]), position(1000));
    expect(published).toEqual([lost(1, 4, 994), output(5), lost(6, 8, 0), output(9)]);
  });

  test('does not move an exit whose number the server reports', () => {
    const { subject, published } = order(output(1));
    subject.merge(page(9, [8], { exited: true, exitCode: 3 }), position(100, 4));
    expect(published).toEqual([output(1), lost(2, 3, 0), exited(4, 3), lost(5, 7, 94), output(8)]);
  });

  test('has an exact byte count for random retention limits and page sizes', () => {
    const writes = fc.array(
      fc.record({
        stream: fc.constantFrom('stdout' as const, 'stderr' as const),
        size: fc.integer({ min: 1, max: 30 }),
      }),
      { minLength: 1, maxLength: 60 },
    );
    const limits = fc.record({
      headBytes: fc.nat(40),
      tailBytes: fc.nat(60),
      maxChunks: fc.integer({ min: 1, max: 12 }),
    });
    fc.assert(
      fc.property(
        writes,
        limits,
        fc.nat(60),
        fc.integer({ min: 1, max: 100 }),
        (all, kept, seen, pageBytes) => {
          const log = new OutputLog(kept);
          const { subject, published } = order();
          for (const { stream, size } of all) {
            const seq = log.append(stream, Buffer.alloc(size, 'x'));
            if (seq <= seen) subject.insert({ type: 'output', seq, stream, bytes: Buffer.alloc(size, 'x') });
          }
          for (let pages = 0; pages <= all.length && subject.lastSeq < log.nextSeq - 1; pages++) {
            const budget = { size: pageBytes, sizeOf: (bytes: number) => bytes };
            const { chunks, endsEarly } = log.read(subject.lastSeq, null, budget);
            const nextSeq = endsEarly ? chunks.at(-1)!.seq + 1 : log.nextSeq;
            const [stdout, stderr] = [log.bytesBefore(nextSeq, 'stdout'), log.bytesBefore(nextSeq, 'stderr')];
            subject.merge(
              { ...page(nextSeq, []), chunks },
              { streamBytes: { stdout, stderr, pty: 0 }, exitSeq: null },
            );
          }
          for (const stream of ['stdout', 'stderr'] as const) {
            const total = all.reduce((sum, write) => sum + (write.stream === stream ? write.size : 0), 0);
            const counted = published.reduce((sum, event) => {
              if (event.type === 'lost') return sum + event.streamBytes![stream];
              return sum + (event.type === 'output' && event.stream === stream ? event.bytes.length : 0);
            }, 0);
            expect(counted).toBe(total);
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  test('never hides, repeats or reorders what a reader that begins later and skips events can still get', () => {
    const cases = fc.record({
      total: fc.integer({ min: 3, max: 40 }),
      exitAt: fc.double({ min: 0, max: 1, noNaN: true }),
      start: fc.double({ min: 0, max: 1, noNaN: true }),
      evicted: fc.nat(40),
      steps: fc.array(
        fc.record({ seq: fc.integer({ min: 1, max: 40 }), by: fc.constantFrom('sent', 'skipped', 'read') }),
        { maxLength: 60 },
      ),
    });
    fc.assert(
      fc.property(cases, ({ total, exitAt, start, evicted, steps }) => {
        const exitSeq = 1 + Math.floor(exitAt * (total - 2));
        const startSeq = Math.floor(start * total);
        const event = (seq: number) =>
          seq === total ? closed(seq) : seq === exitSeq ? exited(seq, 3) : output(seq);
        const published: OrderedEvent[] = [];
        const subject = new EventOrder((one) => published.push(one), startSeq);
        const read = (end: number) => {
          const retained = Array.from({ length: end }, (_, index) => index + 1).filter(
            (seq) => seq > Math.max(evicted, subject.lastSeq) && event(seq).type === 'output',
          );
          const rest = { exited: exitSeq <= end, exitCode: exitSeq <= end ? 3 : null, closed: end === total };
          subject.merge(page(end + 1, retained, rest), position(null, exitSeq <= end ? exitSeq : null));
        };
        for (const { seq, by } of steps) {
          if (seq > total) continue;
          if (by === 'sent') subject.insert(event(seq));
          else if (by === 'read') read(seq);
          else subject.skip(seq);
          if (by === 'skipped' && seq > subject.lastSeq) expect(subject.waiting).toBe(true);
        }
        read(total);
        expect(subject.waiting).toBe(false);
        if (startSeq === total) {
          expect(published).toEqual([closed(total)]);
          return;
        }
        let next = startSeq + 1;
        for (const one of published) {
          expect(one.type === 'lost' ? one.fromSeq : one.seq).toBe(next);
          next = (one.type === 'lost' ? one.toSeq : one.seq) + 1;
          if (one.type === 'lost') expect(one.toSeq).toBeLessThanOrEqual(evicted);
          else expect(one).toEqual(event(one.seq));
        }
        expect(next).toBe(total + 1);
      }),
      { numRuns: 1000 },
    );
  });

  test('never hides, repeats or reorders output that is still available', () => {
    const cases = fc.record({
      total: fc.integer({ min: 3, max: 40 }),
      exitAt: fc.double({ min: 0, max: 1, noNaN: true }),
      seen: fc.double({ min: 0, max: 1, noNaN: true }),
      evicted: fc.double({ min: 0, max: 1, noNaN: true }),
      target: fc.double({ min: 0, max: 1, noNaN: true }),
      live: fc.array(fc.integer({ min: 1, max: 40 })),
    });
    fc.assert(
      fc.property(cases, ({ total, exitAt, seen, evicted, target, live }) => {
        const exitSeq = 1 + Math.floor(exitAt * (total - 2));
        const event = (seq: number) =>
          seq === total ? closed(seq) : seq === exitSeq ? exited(seq, 3) : output(seq);
        const all = Array.from({ length: total }, (_, index) => event(index + 1));
        const seenThrough = Math.floor(seen * total);
        const evictedThrough = Math.floor(evicted * total);
        const end = 1 + Math.floor(target * (total - 1));
        const { subject, published } = order(...all.slice(0, seenThrough));
        for (const seq of live) if (seq <= total) subject.insert(event(seq));
        const retained = all.filter(
          ({ type, seq }) => type === 'output' && seq > evictedThrough && seq <= end,
        ) as Extract<SequencedEvent, { type: 'output' }>[];
        subject.merge({
          ...page(end + 1, []),
          chunks: retained,
          exited: exitSeq <= end,
          exitCode: exitSeq <= end ? 3 : null,
          closed: end === total,
        });
        for (const { seq } of all.slice(end)) subject.insert(event(seq));
        let next = 1;
        for (const one of published) {
          expect(one.type === 'lost' ? one.fromSeq : one.seq).toBe(next);
          next = (one.type === 'lost' ? one.toSeq : one.seq) + 1;
        }
        expect(next).toBe(total + 1);
        const had = new Set(published.flatMap((one) => (one.type === 'output' ? [one.seq] : [])));
        for (const { seq } of retained) expect(had.has(seq)).toBe(true);
        expect(published.filter((one) => one.type === 'exited')).toHaveLength(1);
        expect(published.at(-1)).toEqual(closed(total));
        if (evictedThrough <= seenThrough) {
          expect(published).toEqual(all);
        }
      }),
      { numRuns: 1000 },
    );
  });
});
