import { afterEach, describe, expect, test, vi } from 'vitest';
import { decodeFrame, encodeFrame } from '../../../../src/relay/frames/frame.ts';
import {
  ACK_DELAY_MS,
  MAX_UNACKNOWLEDGED_RECORDS,
  PROBE_TIMEOUT_MS,
  RESUME_WINDOW_MS,
  RETRANSMIT_MIN_MS,
} from '../../../../src/relay/limits.ts';
import { HarnessLink } from '../../../../src/relay/stream/harness-link.ts';
import { CloseCode } from '../../../../src/transport/transport.ts';
import { RecordedEvents } from '../../transport/recorded-events.ts';
import {
  bodies,
  connectLinks,
  countOf,
  harnessOptions,
  REGISTRATION,
  settle,
  TestExecutor,
} from '../link-fixture.ts';
import { createPipePair, type MemoryPipe } from '../memory-pipe.ts';
import { type CutSide, TestRendezvous } from '../test-rendezvous.ts';

afterEach(() => {
  vi.useRealTimers();
});

/** Messages of one record and messages of several. */
const MESSAGES = Array.from(
  { length: 12 },
  (_, index) => `${index} ${'x'.repeat(index % 4 === 3 ? 150_000 : 10)}`,
);

/** Peers over a rendezvous that reconnect immediately after a lost connection. The executor echoes messages. */
async function connectThroughRendezvous() {
  const rendezvous = new TestRendezvous();
  const executor = new TestExecutor({
    pipeLost: () => setImmediate(() => executor.link.attach(rendezvous.connectExecutor(), REGISTRATION)),
    accept: (transport) =>
      transport.open({
        message: (text) => transport.send(text),
        undecodable: () => {},
        drained: () => {},
        ended: () => {},
        closed: () => {},
      }),
  });
  executor.link.attach(rendezvous.connectExecutor(), REGISTRATION);
  const harness = await HarnessLink.connect(rendezvous.connectHarness(), {
    ...harnessOptions,
    pipeLost: () => setImmediate(() => harness.attach(rendezvous.connectHarness())),
  });
  rendezvous.frames = 0;
  const events = RecordedEvents.of(harness.transport);
  const end = () => {
    harness.transport.close({ code: CloseCode.normal, reason: '' });
    executor.link.close({ code: CloseCode.goingAway, reason: '' });
  };
  return { rendezvous, executor, harness, events, end };
}

async function echoAll(cutAt: (frame: number) => CutSide | null): Promise<number> {
  const { rendezvous, harness, events, end } = await connectThroughRendezvous();
  rendezvous.cutAt = cutAt;
  for (const message of MESSAGES) harness.transport.send(message);
  await Promise.race([events.untilMessages(MESSAGES.length), events.untilClosed()]);
  expect(events.closeReason).toBe(null);
  expect(events.messages).toEqual(MESSAGES);
  const { frames } = rendezvous;
  end();
  return frames;
}

describe('a lost connection', () => {
  test.each<CutSide>(['harness', 'executor', 'both'])(
    'loses and repeats no message, at whatever frame it breaks: %s',
    async (side) => {
      const frames = await echoAll(() => null);
      expect(frames).toBeGreaterThan(25);
      for (let at = 0; at < frames; at++) await echoAll((frame) => (frame === at ? side : null));
    },
  );

  test('is resumed repeatedly, even during a resume', async () => {
    const sides = ['harness', 'executor', 'both'] as const;
    for (const every of [3, 5, 7]) {
      let cuts = 0;
      await echoAll((frame) => (frame % every === 0 && cuts < 30 ? sides[cuts++ % 3]! : null));
      expect(cuts).toBeGreaterThan(5);
    }
  });

  test('does not repeat queued messages', async () => {
    const { harness, harnessPipe, executor, served, events } = await connectLinks();
    served.transport.setReceiving(false);
    const expected = Array.from({ length: 50 }, (_, index) => `m${index}`);
    for (const message of expected) harness.transport.send(message);
    await settle();
    harnessPipe.cut();
    const [newPipe, executorPipe] = createPipePair();
    executor.link.attach(executorPipe, REGISTRATION);
    harness.attach(newPipe);
    await settle();
    expect(countOf(newPipe, 'data')).toBe(expected.length);
    served.transport.setReceiving(true);
    harness.transport.send('last');
    await served.events.untilMessages(expected.length + 1);
    expect(served.events.messages).toEqual([...expected, 'last']);
    harness.transport.close({ code: CloseCode.normal, reason: '' });
    await events.untilClosed();
  });

  test('is resumed with another request when the answer is lost', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { harness, harnessPipe, executor, served, events } = await connectLinks();
    harness.transport.send('one');
    await settle();
    harnessPipe.cut();
    const [newPipe, executorPipe] = createPipePair();
    executorPipe.fault = (frame) => (decodeFrame(frame).body.kind === 'resume' ? [] : [frame]);
    executor.link.attach(executorPipe, REGISTRATION);
    harness.attach(newPipe);
    vi.advanceTimersByTime(ACK_DELAY_MS);
    await settle();
    expect(countOf(executorPipe, 'ack')).toBe(1);
    executorPipe.fault = (frame) => [frame];
    harness.transport.send('two');
    vi.advanceTimersByTime(RETRANSMIT_MIN_MS);
    await settle();
    expect(served.events.messages).toEqual(['one', 'two']);
    vi.advanceTimersByTime(ACK_DELAY_MS);
    harness.transport.close({ code: CloseCode.normal, reason: '' });
    await events.untilClosed();
  });

  test('does not interrupt sending', async () => {
    const { rendezvous, harness, events, end } = await connectThroughRendezvous();
    rendezvous.cut('both');
    expect(harness.transport.send('while it is away')).toBe(true);
    await events.untilMessages(1);
    expect(events.log).toEqual(['message while it is away']);
    end();
  });
});

describe('a peer that does not reconnect', () => {
  test('ends the stream after the resume window', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let lost = 0;
    const { harness, events, harnessPipe, executor, served } = await connectLinks({
      harness: { pipeLost: () => lost++ },
    });
    harnessPipe.cut();
    expect(lost).toBe(1);
    vi.advanceTimersByTime(RESUME_WINDOW_MS - 1);
    expect([events.log, served.events.log]).toEqual([[], []]);
    expect(executor.link.streamCount).toBe(1);
    vi.advanceTimersByTime(1);
    expect(events.closeReason).toEqual({
      code: CloseCode.abnormal,
      reason: 'the peer did not reconnect in time',
    });
    expect(served.events.log).toEqual(['closed']);
    expect(executor.link.streamCount).toBe(0);
    expect(harness.transport.send('too late')).toBe(true);
  });

  test('ends the stream immediately when it no longer knows it', async () => {
    const { harness, events, harnessPipe, executor } = await connectLinks();
    harnessPipe.cut();
    executor.link.close({ code: CloseCode.goingAway, reason: '' });
    const [newPipe, executorPipe] = createPipePair();
    new TestExecutor().link.attach(executorPipe, REGISTRATION);
    harness.attach(newPipe);
    expect((await events.untilClosed()).reason).toBe('the peer reset the stream');
  });

  test('ends the stream when it stays silent', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { harness, events, harnessPipe } = await connectLinks();
    harnessPipe.fault = () => [];
    harness.transport.send('into the void');
    for (let minute = 0; minute < 2; minute++) {
      vi.advanceTimersByTime(60_000);
      await settle();
    }
    expect(events.closeReason).toEqual({ code: CloseCode.abnormal, reason: 'the peer does not answer' });
    expect(countOf(harnessPipe, 'data')).toBe(8);
  });

  test('does not keep a closing stream open', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { harness, events, harnessPipe, served } = await connectLinks();
    harness.transport.send('unread');
    harnessPipe.cut();
    harness.transport.close({ code: CloseCode.normal, reason: 'enough' });
    expect(events.log).toEqual([]);
    vi.advanceTimersByTime(2_000);
    expect(events.closeReason).toEqual({ code: CloseCode.normal, reason: 'enough' });
    served.transport.close({ code: CloseCode.normal, reason: '' });
    vi.advanceTimersByTime(2_000);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('confirmReceived', () => {
  test('waits for the ack of what was sent', async () => {
    const { harnessPipe, served } = await connectLinks();
    let confirmed = 0;
    const confirm = () => served.transport.confirmReceived?.(0, () => confirmed++);
    confirm();
    expect(confirmed).toBe(1);
    served.transport.send('closed');
    confirm();
    expect(confirmed).toBe(1);
    await vi.waitFor(() => expect(confirmed).toBe(2));
    harnessPipe.cut();
    confirm();
    await settle();
    expect(confirmed).toBe(2);
  });
});

describe('probe', () => {
  test('ends the stream of a disconnected peer immediately', async () => {
    const { harnessPipe, served, executor, harness, events } = await connectLinks();
    harnessPipe.cut();
    served.transport.probe?.();
    expect(served.events.log).toEqual([]);
    expect((await served.events.untilClosed()).code).toBe(CloseCode.abnormal);
    expect(executor.link.streamCount).toBe(0);
    harness.transport.probe?.();
    await events.untilClosed();
  });

  test('gives a connected peer time to answer', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { harnessPipe, served, harness } = await connectLinks();
    harness.transport.send('unacknowledged');
    served.transport.probe?.();
    await settle();
    vi.advanceTimersByTime(PROBE_TIMEOUT_MS);
    expect(served.events.log).toEqual(['message unacknowledged']);
    harnessPipe.fault = () => [];
    served.transport.probe?.();
    served.transport.probe?.();
    await settle();
    vi.advanceTimersByTime(PROBE_TIMEOUT_MS - 1);
    expect(served.events.closeReason).toBe(null);
    vi.advanceTimersByTime(1);
    expect(served.events.closeReason?.reason).toBe('the peer does not answer');
    await settle();
    vi.advanceTimersByTime(60_000);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a pipe that drops, duplicates and reorders frames', () => {
  test('loses no message', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    for (const percent of [3, 10]) {
      const { harness, events, harnessPipe, executorPipe, served } = await connectLinks();
      harnessPipe.fault = unreliable(percent, 1);
      executorPipe.fault = unreliable(percent, 2);
      const expected = Array.from({ length: 200 }, (_, index) => `message ${index}`);
      for (const message of expected) {
        harness.transport.send(message);
        served.transport.send(message);
      }
      const done = () =>
        events.messages.length === expected.length && served.events.messages.length === expected.length;
      for (let turn = 0; turn < 5_000 && !done(); turn++) {
        await settle(2);
        vi.advanceTimersByTime(50);
      }
      expect(events.messages).toEqual(expected);
      expect(served.events.messages).toEqual(expected);
      // Retransmitted records have the same bytes: a sequence number never encrypts two records.
      const records = new Map<number, string>();
      for (const body of bodies(harnessPipe)) {
        if (body.kind !== 'data') continue;
        const hex = Buffer.from(body.payload).toString('hex');
        expect(records.get(body.seq) ?? hex).toBe(hex);
        records.set(body.seq, hex);
      }
      [harnessPipe.fault, executorPipe.fault] = [(frame) => [frame], (frame) => [frame]];
      harness.transport.close({ code: CloseCode.normal, reason: '' });
      served.transport.close({ code: CloseCode.normal, reason: '' });
      vi.advanceTimersByTime(5_000);
      await settle();
    }
  });
});

describe('acks', () => {
  test('are sent alone without outgoing records, and with records otherwise', async () => {
    const { harness, harnessPipe, executorPipe, served } = await connectLinks();
    harness.transport.send('one');
    await served.events.untilMessages(1);
    await vi.waitFor(() => expect(countOf(executorPipe, 'ack')).toBe(1));
    expect(decodeFrame(executorPipe.sent.at(-1)!)).toMatchObject({ ack: 0, ackBits: 0 });
    harness.transport.send('two');
    await served.events.untilMessages(2);
    served.transport.send('answer');
    await vi.waitFor(() => expect(countOf(harnessPipe, 'ack')).toBe(1));
    expect(decodeFrame(executorPipe.sent.at(-1)!)).toMatchObject({ ack: 1, body: { kind: 'data' } });
    expect(countOf(executorPipe, 'ack')).toBe(1);
    harness.transport.close({ code: CloseCode.normal, reason: '' });
  });

  test('wait for the reader, so that an unread peer stops sending without loss', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { harness, harnessPipe, served, events } = await connectLinks();
    served.transport.setReceiving(false);
    const count = 3 * MAX_UNACKNOWLEDGED_RECORDS;
    for (let index = 0; index < count; index++) harness.transport.send(`m${index}`);
    await settle();
    expect(countOf(harnessPipe, 'data')).toBe(MAX_UNACKNOWLEDGED_RECORDS);
    for (let minute = 0; minute < 5; minute++) {
      vi.advanceTimersByTime(60_000);
      await settle();
    }
    expect([events.log, served.events.log]).toEqual([[], []]);
    served.transport.setReceiving(true);
    for (let turn = 0; turn < 200 && served.events.messages.length < count; turn++) {
      vi.advanceTimersByTime(100);
      await settle(3);
    }
    expect(served.events.messages).toEqual(Array.from({ length: count }, (_, index) => `m${index}`));
    harness.transport.close({ code: CloseCode.normal, reason: '' });
    vi.advanceTimersByTime(5_000);
  });

  test('end the stream when they cover records that were never sent', async () => {
    const { harness, harnessPipe, events } = await connectLinks();
    harnessPipe.inject(encodeFrame({ streamId: harness.streamId, ack: 5, body: { kind: 'ack' } }));
    expect((await events.untilClosed()).reason).toContain('never sent');
  });

  test('are ignored from a peer that did not negotiate them', async () => {
    const { harness, harnessPipe, events, served } = await connectLinks({ harness: { offerAcks: false } });
    const { streamId } = harness;
    harnessPipe.inject(encodeFrame({ streamId, ack: 5, ackBits: 7, body: { kind: 'ack' } }));
    harnessPipe.inject(encodeFrame({ streamId, body: { kind: 'heartbeat' } }));
    harnessPipe.inject(encodeFrame({ streamId, ackBits: 0x72737131, body: { kind: 'resume', nextSeq: 9 } }));
    served.transport.send('goes on');
    await events.untilMessages(1);
    expect(bodies(harnessPipe).map(({ kind }) => kind)).toEqual(['resume', 'handshake']);
    harness.transport.close({ code: CloseCode.normal, reason: '' });
  });
});

test('closes a pipe that arrives too late', async () => {
  const { harness, events, executor } = await connectLinks();
  executor.link.close({ code: CloseCode.goingAway, reason: '' });
  await events.untilClosed();
  const [late, peer] = createPipePair();
  harness.attach(late);
  const [lateToo] = createPipePair();
  executor.link.attach(lateToo, REGISTRATION);
  const plain = await connectLinks({ harness: { offerAcks: false } });
  const [useless] = createPipePair();
  plain.harness.attach(useless);
  expect([late.closed, lateToo.closed, useless.closed]).toEqual([true, true, true]);
  expect(peer.sent).toEqual([]);
  plain.harness.transport.close({ code: CloseCode.normal, reason: '' });
});

test('switches to a new pipe while the old one is open', async () => {
  const { harness, executor, harnessPipe, served, events } = await connectLinks();
  harnessPipe.fault = () => [];
  harness.transport.send('lost on the old pipe');
  const [newPipe, executorPipe] = createPipePair();
  executor.link.attach(executorPipe, REGISTRATION);
  harness.attach(newPipe);
  await served.events.untilMessages(1);
  expect(harnessPipe.closed).toBe(true);
  harness.transport.close({ code: CloseCode.normal, reason: '' });
  await events.untilClosed();
});

test('retransmits a lost record as soon as a later one arrives', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const { harness, harnessPipe, served, executor } = await connectLinks();
  harness.transport.send('zero');
  await served.events.untilMessages(1);
  dropNextRecord(harnessPipe);
  for (const text of ['one', 'two', 'three']) harness.transport.send(text);
  // Fake timers do not advance, so no timeout triggers the retransmission.
  await settle();
  expect(served.events.messages).toEqual(['zero', 'one', 'two', 'three']);
  expect(countOf(harnessPipe, 'data')).toBe(5);
  executor.link.close({ code: CloseCode.goingAway, reason: '' });
});

function dropNextRecord(pipe: MemoryPipe): void {
  pipe.fault = () => {
    pipe.fault = (frame) => [frame];
    return [];
  };
}

/** Drops a percentage of frames, duplicates as many, and delays as many behind the next. Deterministic for a seed. */
function unreliable(percent: number, seed: number): (frame: Uint8Array) => Uint8Array[] {
  let late: Uint8Array[] = [];
  let state = seed;
  return (frame) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    const dice = (state / 2 ** 32) * 100;
    if (dice < percent) return [];
    if (dice < 2 * percent) return [frame, frame];
    if (dice < 3 * percent) {
      late.push(frame);
      return [];
    }
    const frames = [frame, ...late];
    late = [];
    return frames;
  };
}
