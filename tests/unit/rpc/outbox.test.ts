import fc from 'fast-check';
import { expect, test } from 'vitest';
import { UNSENT_RESPONSES_MAX_BYTES } from '../../../src/rpc/limits.ts';
import { Outbox } from '../../../src/rpc/outbox.ts';
import type { Transport } from '../../../src/transport/transport.ts';

/** A transport that accepts `capacity` messages before it is congested. A test adds capacity and calls `drained`. */
class ScriptedTransport implements Transport {
  readonly sent: string[] = [];
  capacity = Number.POSITIVE_INFINITY;

  open(): void {}
  setReceiving(): void {}
  close(): void {}

  send(message: string | Uint8Array): boolean {
    this.sent.push(typeof message === 'string' ? message.slice(0, 20) : Buffer.from(message).toString());
    return --this.capacity > 0;
  }

  sendPart(part: Uint8Array, last: boolean): boolean {
    return this.send(Buffer.from(`${Buffer.from(part)}${last ? '$' : '~'}`));
  }
}

function createOutbox(highWaterBytes = 10) {
  const transport = new ScriptedTransport();
  const events: string[] = [];
  const outbox = new Outbox(transport, highWaterBytes, {
    bulk: (stopped) => events.push(stopped ? 'bulk stopped' : 'bulk flows'),
    responses: (stopped) => events.push(stopped ? 'answers stopped' : 'answers flow'),
  });
  const drain = (capacity: number) => {
    transport.capacity = capacity;
    outbox.drained();
  };
  return { transport, events, outbox, drain };
}

const bulk = (text: string) => Buffer.from(text);

test('sends everything immediately while there is capacity', () => {
  const { transport, events, outbox } = createOutbox();
  outbox.sendBulk(bulk('b1'));
  outbox.sendControl('c1');
  outbox.sendBulk(bulk('b2'));
  expect(transport.sent).toEqual(['b1', 'c1', 'b2']);
  expect(events).toEqual([]);
});

test('control messages overtake waiting bulk data, and bulk data keeps its order', () => {
  const { transport, outbox, drain } = createOutbox();
  transport.capacity = 1;
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

test('bulk data never overtakes waiting bulk data', () => {
  const { transport, outbox, drain } = createOutbox();
  transport.capacity = 1;
  outbox.sendBulk(bulk('b1'));
  outbox.sendBulk(bulk('b2'));
  outbox.sendBulk(bulk('b3'));
  drain(1);
  transport.capacity = 100;
  outbox.sendBulk(bulk('b4'));
  expect(transport.sent).toEqual(['b1', 'b2']);
  drain(100);
  expect(transport.sent).toEqual(['b1', 'b2', 'b3', 'b4']);
});

test('producers stop above the high-water mark and resume at half of it', () => {
  const { transport, events, outbox, drain } = createOutbox(10);
  transport.capacity = 1;
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

test('requests stop when unread responses pile up, and resume when they are sent', () => {
  const { transport, events, outbox, drain } = createOutbox();
  const answer = 'x'.repeat(UNSENT_RESPONSES_MAX_BYTES / 4);
  transport.capacity = 0;
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

test('responses that the peer reads in time stop nothing, however many there are', () => {
  const { transport, events, outbox, drain } = createOutbox();
  const answer = 'x'.repeat(UNSENT_RESPONSES_MAX_BYTES / 4);
  for (let round = 0; round < 10; round++) {
    transport.capacity = 0;
    for (let sent = 0; sent < 4; sent++) outbox.sendControl(answer);
    drain(100);
  }
  expect(events).toEqual([]);
});

test('messages sent while the flow resumes keep the order: responses first, bulk data last', () => {
  const transport = new ScriptedTransport();
  const outbox = new Outbox(transport, 10, {
    bulk: () => undefined,
    responses: (stopped) => {
      if (stopped) return;
      outbox.sendControl('held answer');
      outbox.sendBulk(bulk('b3'));
    },
  });
  transport.capacity = 0;
  outbox.sendBulk(bulk('b1'));
  outbox.sendBulk(bulk('b2'));
  for (let sent = 0; sent < 5; sent++) outbox.sendControl('x'.repeat(UNSENT_RESPONSES_MAX_BYTES / 4));
  transport.capacity = 2;
  outbox.drained();
  expect(transport.sent.slice(6)).toEqual(['held answer', 'b2']);
  transport.capacity = 100;
  outbox.drained();
  expect(transport.sent.slice(6)).toEqual(['held answer', 'b2', 'b3']);
});

test('nothing is lost, repeated or reordered, and saturation matches what waits', () => {
  const step = fc.oneof(
    fc.integer({ min: 1, max: 6 }).map((size) => ({ kind: 'bulk' as const, size })),
    fc.constant({ kind: 'control' as const, size: 0 }),
    fc.integer({ min: 1, max: 5 }).map((size) => ({ kind: 'drain' as const, size })),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
      const { transport, events, outbox, drain } = createOutbox(12);
      transport.capacity = 2;
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

/** Parts that a test releases one by one. */
function createParts() {
  const waiting: ((next: IteratorResult<{ bytes: Uint8Array }>) => void)[] = [];
  const given: Promise<IteratorResult<{ bytes: Uint8Array }>>[] = [];
  const next = () =>
    given.shift() ?? new Promise<IteratorResult<{ bytes: Uint8Array }>>((r) => waiting.push(r));
  const give = async (result: IteratorResult<{ bytes: Uint8Array }>) => {
    const waiter = waiting.shift();
    if (waiter === undefined) given.push(Promise.resolve(result));
    else waiter(result);
    await turn();
  };
  return {
    parts: { [Symbol.asyncIterator]: () => ({ next }) },
    part: (text: string) => give({ done: false, value: { bytes: Buffer.from(text) } }),
    end: () => give({ done: true, value: undefined }),
  };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('nothing is sent between the parts of a stream; waiting messages follow, control first', async () => {
  const { transport, outbox } = createOutbox(100);
  const { parts, part, end } = createParts();
  const sent = outbox.sendStream({ parts, last: bulk('Z'), keptBytes: 0 });
  await part('A');
  outbox.sendBulk(bulk('b1'));
  outbox.sendControl('c1');
  await part('B');
  expect(transport.sent).toEqual(['A~', 'B~']);
  await end();
  await sent;
  expect(transport.sent).toEqual(['A~', 'B~', 'Z$', 'c1', 'b1']);
});

test('a stream continues only when the transport has capacity', async () => {
  const { transport, outbox, drain } = createOutbox();
  const { parts, part, end } = createParts();
  void outbox.sendStream({ parts, last: bulk('Z'), keptBytes: 0 });
  transport.capacity = 1;
  await part('A');
  await part('B');
  await end();
  expect(transport.sent).toEqual(['A~']);
  drain(1);
  await turn();
  expect(transport.sent).toEqual(['A~', 'B~']);
  outbox.sendControl('c1');
  drain(1);
  await turn();
  // The last part uses up the capacity, so bulk data waits; control messages do not.
  outbox.sendBulk(bulk('b1'));
  expect(transport.sent).toEqual(['A~', 'B~', 'Z$', 'c1']);
  drain(9);
  expect(transport.sent.at(-1)).toBe('b1');
});

test('a second stream waits for the first', async () => {
  const { transport, outbox } = createOutbox();
  const first = createParts();
  const second = createParts();
  const sent = [
    outbox.sendStream({ parts: first.parts, last: bulk('Y'), keptBytes: 0 }),
    outbox.sendStream({ parts: second.parts, last: bulk('Z'), keptBytes: 0 }),
  ];
  await second.part('B');
  await second.end();
  await first.part('A');
  await first.end();
  await Promise.all(sent);
  expect(transport.sent).toEqual(['A~', 'Y$', 'B~', 'Z$']);
});

test('responses that pile up behind a stream stop receiving until they are sent', async () => {
  const { events, outbox } = createOutbox();
  const { parts, part, end } = createParts();
  const sent = outbox.sendStream({ parts, last: bulk('Z'), keptBytes: 0 });
  await part('A');
  outbox.sendControl('x'.repeat(UNSENT_RESPONSES_MAX_BYTES + 1));
  expect(events).toEqual(['answers stopped']);
  await end();
  await sent;
  expect(events).toEqual(['answers stopped', 'answers flow']);
});

test('a stream whose source fails rejects, and nothing follows the partial message', async () => {
  const { transport, outbox } = createOutbox();
  const failing = {
    async *[Symbol.asyncIterator]() {
      yield { bytes: bulk('A') };
      throw new Error('disk');
    },
  };
  const next = createParts();
  const failed = outbox.sendStream({ parts: failing, last: bulk('Y'), keptBytes: 0 });
  const behind = outbox.sendStream({ parts: next.parts, last: bulk('Z'), keptBytes: 0 });
  await expect(failed).rejects.toThrow('disk');
  outbox.sendControl('c1');
  await next.part('B');
  await next.end();
  await behind;
  expect(transport.sent).toEqual(['A~']);
});

test('closing the outbox ends a waiting stream and starts no other', async () => {
  const { transport, outbox } = createOutbox();
  const first = createParts();
  const second = createParts();
  transport.capacity = 1;
  const sent = [
    outbox.sendStream({ parts: first.parts, last: bulk('Y'), keptBytes: 0 }),
    outbox.sendStream({ parts: second.parts, last: bulk('Z'), keptBytes: 0 }),
  ];
  await first.part('A');
  outbox.close();
  await Promise.all(sent);
  expect(transport.sent).toEqual(['A~']);
});

test('a stream does not wait for capacity in a closed transport', async () => {
  const { transport, outbox } = createOutbox();
  const { parts, part } = createParts();
  const sent = outbox.sendStream({ parts, last: bulk('Z'), keptBytes: 0 });
  await part('A');
  transport.capacity = 0;
  outbox.close();
  await part('B');
  await sent;
});

test('streams that wait for another one count as unsent responses', async () => {
  const { events, outbox } = createOutbox();
  const kept = UNSENT_RESPONSES_MAX_BYTES / 2;
  const streams = [createParts(), createParts(), createParts(), createParts()];
  const sent = streams.map(({ parts }) => outbox.sendStream({ parts, last: bulk('Z'), keptBytes: kept }));
  expect(events).toEqual(['answers stopped']);
  await turn();
  expect(events).toEqual(['answers stopped']);
  await streams[0]?.end();
  expect(events).toEqual(['answers stopped', 'answers flow']);
  for (const { end } of streams.slice(1)) await end();
  await Promise.all(sent);
  expect(events).toHaveLength(2);
});

test('responses left unsent at the end of a stream keep receiving stopped', async () => {
  const { transport, events, outbox, drain } = createOutbox();
  const { parts, end } = createParts();
  const sent = outbox.sendStream({ parts, last: bulk('Z'), keptBytes: 0 });
  await turn();
  for (let index = 0; index < 5; index++) outbox.sendControl('x'.repeat(UNSENT_RESPONSES_MAX_BYTES / 4));
  transport.capacity = 0;
  await end();
  await sent;
  expect(events).toEqual(['answers stopped']);
  drain(100);
  expect(events).toEqual(['answers stopped', 'answers flow']);
});
