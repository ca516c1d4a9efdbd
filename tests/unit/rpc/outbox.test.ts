import fc from 'fast-check';
import { expect, test } from 'vitest';
import { UNSENT_ANSWERS_MAX_BYTES } from '../../../src/rpc/limits.ts';
import { Outbox } from '../../../src/rpc/outbox.ts';
import type { Transport } from '../../../src/transport/transport.ts';

/** A transport that takes `room` messages before it is congested; a test gives it room again and tells the outbox. */
class ScriptedTransport implements Transport {
  readonly sent: string[] = [];
  room = Number.POSITIVE_INFINITY;

  open(): void {}
  setReceiving(): void {}
  close(): void {}

  send(message: string | Uint8Array): boolean {
    this.sent.push(typeof message === 'string' ? message.slice(0, 20) : Buffer.from(message).toString());
    return --this.room > 0;
  }
}

function createOutbox(highWaterBytes = 10) {
  const transport = new ScriptedTransport();
  const events: string[] = [];
  const outbox = new Outbox(transport, highWaterBytes, {
    bulk: (stopped) => events.push(stopped ? 'bulk stopped' : 'bulk flows'),
    answers: (stopped) => events.push(stopped ? 'answers stopped' : 'answers flow'),
  });
  const drain = (room: number) => {
    transport.room = room;
    outbox.drained();
  };
  return { transport, events, outbox, drain };
}

const bulk = (text: string) => Buffer.from(text);

test('everything goes straight out while there is room', () => {
  const { transport, events, outbox } = createOutbox();
  outbox.sendBulk(bulk('b1'));
  outbox.sendControl('c1');
  outbox.sendBulk(bulk('b2'));
  expect(transport.sent).toEqual(['b1', 'c1', 'b2']);
  expect(events).toEqual([]);
});

test('control messages pass bulk data that waits, and bulk data keeps its order', () => {
  const { transport, outbox, drain } = createOutbox();
  transport.room = 1;
  for (const text of ['b1', 'b2', 'b3']) outbox.sendBulk(bulk(text));
  outbox.sendControl('c1');
  outbox.sendControl('c2');
  expect(transport.sent).toEqual(['b1', 'c1', 'c2']);
  drain(2);
  expect(transport.sent).toEqual(['b1', 'c1', 'c2', 'b2', 'b3']);
  outbox.sendBulk(bulk('b4'));
  expect(transport.sent).toHaveLength(5);
  drain(Number.POSITIVE_INFINITY);
  expect(transport.sent.at(-1)).toBe('b4');
});

test('bulk data never passes bulk data that waits', () => {
  const { transport, outbox, drain } = createOutbox();
  transport.room = 1;
  outbox.sendBulk(bulk('b1'));
  outbox.sendBulk(bulk('b2'));
  outbox.sendBulk(bulk('b3'));
  drain(1);
  transport.room = 100;
  outbox.sendBulk(bulk('b4'));
  expect(transport.sent).toEqual(['b1', 'b2']);
  drain(100);
  expect(transport.sent).toEqual(['b1', 'b2', 'b3', 'b4']);
});

test('producers stop above the high-water mark and go on at half of it', () => {
  const { transport, events, outbox, drain } = createOutbox(10);
  transport.room = 1;
  outbox.sendBulk(bulk('xxxx'));
  outbox.sendBulk(bulk('xxxxx'));
  outbox.sendBulk(bulk('xxxxx'));
  expect([events, outbox.saturated]).toEqual([[], false]);
  outbox.sendBulk(bulk('x'));
  outbox.sendBulk(bulk('x'));
  expect([events, outbox.saturated]).toEqual([['bulk stopped'], true]);
  drain(1);
  expect(events).toEqual(['bulk stopped']);
  drain(1);
  expect([events, outbox.saturated]).toEqual([['bulk stopped', 'bulk flows'], false]);
  drain(1);
  expect(events).toHaveLength(2);
});

test('requests stop when answers pile up unread, and go on once they are gone', () => {
  const { transport, events, outbox, drain } = createOutbox();
  const answer = 'x'.repeat(UNSENT_ANSWERS_MAX_BYTES / 4);
  transport.room = 0;
  for (let sent = 0; sent < 4; sent++) outbox.sendControl(answer);
  expect(events).toEqual([]);
  outbox.sendControl('one more');
  outbox.sendControl('and another');
  expect(events).toEqual(['answers stopped']);
  drain(100);
  expect(events).toEqual(['answers stopped', 'answers flow']);
  for (let sent = 0; sent < 10; sent++) outbox.sendControl(answer);
  expect(events).toHaveLength(2);
});

test('answers that the peer reads in time stop nobody, however many there are', () => {
  const { transport, events, outbox, drain } = createOutbox();
  const answer = 'x'.repeat(UNSENT_ANSWERS_MAX_BYTES / 4);
  for (let round = 0; round < 10; round++) {
    transport.room = 0;
    for (let sent = 0; sent < 4; sent++) outbox.sendControl(answer);
    drain(100);
  }
  expect(events).toEqual([]);
});

test('what is sent while the flow resumes takes its place: an answer first, bulk data last', () => {
  const transport = new ScriptedTransport();
  const outbox = new Outbox(transport, 10, {
    bulk: () => undefined,
    answers: (stopped) => {
      if (stopped) return;
      outbox.sendControl('held answer');
      outbox.sendBulk(bulk('b3'));
    },
  });
  transport.room = 0;
  outbox.sendBulk(bulk('b1'));
  outbox.sendBulk(bulk('b2'));
  for (let sent = 0; sent < 5; sent++) outbox.sendControl('x'.repeat(UNSENT_ANSWERS_MAX_BYTES / 4));
  transport.room = 2;
  outbox.drained();
  expect(transport.sent.slice(6)).toEqual(['held answer', 'b2']);
  transport.room = 100;
  outbox.drained();
  expect(transport.sent.slice(6)).toEqual(['held answer', 'b2', 'b3']);
});

test('whatever the transport does, nothing is lost, repeated or reordered, and saturation is what waits', () => {
  const step = fc.oneof(
    fc.integer({ min: 1, max: 6 }).map((size) => ({ kind: 'bulk' as const, size })),
    fc.constant({ kind: 'control' as const, size: 0 }),
    fc.integer({ min: 1, max: 5 }).map((size) => ({ kind: 'drain' as const, size })),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
      const { transport, events, outbox, drain } = createOutbox(12);
      transport.room = 2;
      const given: { bulk: string[]; control: string[] } = { bulk: [], control: [] };
      steps.forEach(({ kind, size }, index) => {
        if (kind === 'drain') {
          drain(size);
        } else if (kind === 'bulk') {
          given.bulk.push(`b${index}`.padEnd(size, '.'));
          outbox.sendBulk(bulk(given.bulk.at(-1)!));
        } else {
          given.control.push(`c${index}`);
          outbox.sendControl(`c${index}`);
        }
        const sentBulk = transport.sent.filter((text) => text.startsWith('b'));
        expect(sentBulk).toEqual(given.bulk.slice(0, sentBulk.length));
        expect(transport.sent.filter((text) => text.startsWith('c'))).toEqual(given.control);
        const waiting = given.bulk.slice(sentBulk.length).reduce((total, text) => total + text.length, 0);
        if (waiting > 12) expect(outbox.saturated).toBe(true);
        if (waiting <= 6) expect(outbox.saturated).toBe(false);
        expect(outbox.saturated).toBe(events.at(-1) === 'bulk stopped');
      });
      drain(Number.POSITIVE_INFINITY);
      expect(transport.sent.filter((text) => text.startsWith('b'))).toEqual(given.bulk);
    }),
    { numRuns: 500 },
  );
});
