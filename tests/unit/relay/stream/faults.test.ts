import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeFrame, encodeFrame } from '../../../../src/relay/frames/frame.ts';
import { CloseCode } from '../../../../src/transport/transport.ts';
import { connectLinks, countOf, settle } from '../link-fixture.ts';

/** A fault of one frame. */
const fault = fc.oneof(
  { weight: 6, arbitrary: fc.constant({ kind: 'none' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'drop' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'double' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'delay' as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('replay' as const), which: fc.nat() }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('flip' as const), at: fc.nat(), bit: fc.nat({ max: 7 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('truncate' as const), at: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('renumber' as const), seq: fc.nat({ max: 30 }) }) },
);
type FrameFault = typeof fault extends fc.Arbitrary<infer Value> ? Value : never;

const HARMLESS = new Set(['none', 'double', 'delay', 'replay']);

test.each([
  ['without acks', false],
  ['with acks', true],
])('delivers only sent messages in order, whatever happens to frames: %s', async (_name, offerAcks) => {
  await fc.assert(
    fc.asyncProperty(fc.array(fault, { minLength: 5, maxLength: 20 }), async (faults) => {
      const { harness, harnessPipe, executor, executorPipe, served, events } = await connectLinks({
        harness: { offerAcks },
      });
      harnessPipe.fault = applying(faults);
      const messages = faults.map((_, index) => `message ${index}`);
      for (const message of messages) harness.transport.send(message);
      await settle();
      const read = served.events.messages;
      expect(read).toEqual(messages.slice(0, read.length));
      if (faults.every(({ kind }) => HARMLESS.has(kind))) {
        expect(read.length).toBe(messages.length);
        expect(served.events.closeReason).toBe(null);
      }
      // A peer that ends a stream sends a reset.
      if (served.events.closeReason !== null) expect(countOf(executorPipe, 'reset')).toBeGreaterThan(0);
      executor.link.close({ code: CloseCode.goingAway, reason: '' });
      await events.untilClosed();
    }),
    { numRuns: 40 },
  );
});

test("a tampered record of the executor ends the harness's connection", async () => {
  const { executorPipe, served, events, harnessPipe } = await connectLinks();
  executorPipe.fault = (frame) => {
    const tampered = Buffer.from(frame);
    tampered[tampered.length - 1]! ^= 1;
    return [tampered];
  };
  served.transport.send('x');
  const { code, reason } = await events.untilClosed();
  expect([code, reason]).toEqual([CloseCode.abnormal, 'the ciphertext is not authentic']);
  expect(harnessPipe.closed).toBe(true);
  await served.events.untilClosed();
});

test("an invalid frame ends the harness's connection, a frame of another stream does not", async () => {
  const { harnessPipe, events, served } = await connectLinks();
  harnessPipe.inject(encodeFrame({ streamId: 'another', body: { kind: 'reset', reason: 'x' } }));
  served.transport.send('still here');
  await events.untilMessages(1);
  harnessPipe.inject(Buffer.from('garbage'));
  expect((await events.untilClosed()).code).toBe(CloseCode.abnormal);
  await served.events.untilClosed();
});

test("a second handshake of the executor ends the harness's connection", async () => {
  const { harnessPipe, executorPipe, events, served } = await connectLinks();
  harnessPipe.inject(executorPipe.sent[0]!);
  expect((await events.untilClosed()).reason).toBe('the executor sent a second handshake');
  await served.events.untilClosed();
});

/** Applies a list of faults to the frames in order. A delayed frame arrives after the next one. */
function applying(faults: readonly FrameFault[]): (frame: Uint8Array) => Uint8Array[] {
  const passed: Uint8Array[] = [];
  let late: Uint8Array[] = [];
  return (frame) => {
    const fault = faults[passed.length] ?? { kind: 'none' };
    passed.push(frame);
    if (fault.kind === 'delay' && passed.length < faults.length) {
      late.push(frame);
      return [];
    }
    const frames = [...distorted(frame, fault, passed), ...late];
    late = [];
    return frames;
  };
}

function distorted(frame: Uint8Array, fault: FrameFault, passed: readonly Uint8Array[]): Uint8Array[] {
  const copy = Buffer.from(frame);
  switch (fault.kind) {
    case 'drop':
      return [];
    case 'double':
      return [frame, frame];
    case 'replay':
      return [frame, passed[fault.which % passed.length]!];
    case 'flip':
      copy[fault.at % copy.length]! ^= 1 << fault.bit;
      return [copy];
    case 'truncate':
      return [copy.subarray(0, fault.at % copy.length)];
    case 'renumber': {
      const { streamId, body } = decodeFrame(frame);
      return [encodeFrame({ streamId, body: body.kind === 'data' ? { ...body, seq: fault.seq } : body })];
    }
    default:
      return [frame];
  }
}
