import { afterEach, describe, expect, test, vi } from 'vitest';
import { decodeFrame, encodeFrame, type FrameBody } from '../../../../src/relay/frames/frame.ts';
import {
  HANDSHAKE_COOLDOWN_MS,
  MAX_AUTHORIZATION_BYTES,
  MAX_FAILED_HANDSHAKES,
  MAX_PENDING_HANDSHAKES,
  MAX_QUEUED_MESSAGES,
  MAX_STREAMS,
  MAX_WAITING_CONTROL_FRAMES,
  VALIDATION_TIMEOUT_MS,
} from '../../../../src/relay/limits.ts';
import { type Channel, InitiatorHandshake } from '../../../../src/relay/noise/handshake.ts';
import type { ExecutorLinkOptions, HarnessClaim } from '../../../../src/relay/stream/executor-link.ts';
import { CloseCode } from '../../../../src/transport/transport.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { executorIdentity, harnessIdentity, REGISTRATION, settle, TestExecutor } from '../link-fixture.ts';
import { createPipePair, type MemoryPipe } from '../memory-pipe.ts';

const opened: RawHarness[] = [];
afterEach(() => {
  vi.useRealTimers();
  for (const { executor } of opened.splice(0)) {
    executor.link.close({ code: CloseCode.goingAway, reason: 'test over' });
  }
});

describe('handshake order', () => {
  test('validates the harness before it answers', async () => {
    const claims: HarnessClaim[] = [];
    let allow: (valid: boolean) => void = () => {};
    const harness = openHarness({
      validate: (claim) => {
        claims.push(claim);
        return new Promise((resolve) => {
          allow = resolve;
        });
      },
    });
    const initiator = await harness.start('s');
    await waitFor('the validation', () => claims.length === 1);
    expect(claims[0]).toMatchObject({ streamId: 's', authorization: 'token', registrationId: REGISTRATION });
    expect(claims[0]?.harnessKey.equals(harnessIdentity.publicKey)).toBe(true);
    await settle();
    expect(harness.received).toEqual([]);
    expect(harness.executor.accepted).toEqual([]);
    allow(true);
    await harness.finish('s', initiator);
    expect(harness.executor.accepted.length).toBe(1);
  });

  test('ends the handshake at a record before the answer', async () => {
    const harness = openHarness({ validate: never });
    await harness.start('s');
    harness.send('s', { kind: 'data', seq: 0, payload: Buffer.of(1) });
    await harness.untilResets('s', 1);
  });

  test('a reset cancels the handshake silently and aborts its validation', async () => {
    let signal: AbortSignal | null = null;
    const harness = openHarness({
      validate: (_claim, aborted) => {
        signal = aborted;
        return new Promise(() => {});
      },
    });
    await harness.start('s');
    await waitFor('the validation', () => signal);
    harness.send('s', { kind: 'reset', reason: 'x' });
    await waitFor('the end', () => signal?.aborted);
    await settle();
    expect(harness.received).toEqual([]);
  });

  test('refuses the harness when validation fails', async () => {
    const harness = openHarness({ validate: () => Promise.reject(new Error('no network')) });
    await harness.start('s');
    await harness.untilResets('s', 1);
  });
});

describe('frames', () => {
  test('drops invalid frames and continues', async () => {
    const harness = openHarness();
    harness.pipe.send(Buffer.from('garbage'));
    harness.send('unknown', { kind: 'resume', nextSeq: 0 });
    harness.send('unknown', { kind: 'ack' });
    harness.send('unknown', { kind: 'heartbeat' });
    harness.send('unknown', { kind: 'reset', reason: 'x' });
    await harness.connect('s');
    expect(harness.received.map(({ body }) => body.kind)).toEqual(['handshake']);
  });

  test('answers each record of an unknown stream with a reset', async () => {
    const harness = openHarness();
    for (let count = 0; count < 3; count++) {
      harness.send('unknown', { kind: 'data', seq: count, payload: Buffer.of(1) });
    }
    await harness.untilResets('unknown', 3);
  });

  test('refuses a second handshake of an open stream without ending it', async () => {
    const harness = openHarness();
    const channel = await harness.connect('s');
    await harness.start('s');
    await harness.untilResets('s', 1);
    harness.sendRecord('s', channel, frameText('still here'));
    await harness.executor.accepted[0]!.events.untilMessages(1);
  });

  test('reads a message of several records, several in one record, and one byte per record', async () => {
    const harness = openHarness();
    const channel = await harness.connect('s');
    const { events } = harness.executor.accepted[0]!;
    harness.sendRecord('s', channel, Buffer.concat([frameText('one'), frameText('two')]));
    for (const byte of frameText('three')) harness.sendRecord('s', channel, Buffer.of(byte));
    await events.untilMessages(3);
    expect(events.messages).toEqual(['one', 'two', 'three']);
  });

  test.each<[string, (channel: Channel) => Buffer]>([
    ['a record that is not authentic', () => Buffer.alloc(64)],
    ['a record that is too large', ({ ciphers }) => ciphers.sending.seal(Buffer.alloc(61_441))],
    ['an empty message', ({ ciphers }) => ciphers.sending.seal(Buffer.alloc(4))],
    ['a message that is too large', ({ ciphers }) => ciphers.sending.seal(Buffer.from('0400000161', 'hex'))],
    ['a message that is not UTF-8', ({ ciphers }) => ciphers.sending.seal(Buffer.from('00000001ff', 'hex'))],
  ])('%s ends only its stream', async (_name, payload) => {
    const harness = openHarness();
    const [bad, good] = [await harness.connect('bad'), await harness.connect('good')];
    harness.send('bad', { kind: 'data', seq: 0, payload: payload(bad) });
    await harness.untilResets('bad', 1);
    const [first, second] = harness.executor.accepted;
    expect((await first!.events.untilClosed()).code).toBe(CloseCode.abnormal);
    harness.sendRecord('good', good, frameText('fine'));
    await second!.events.untilMessages(1);
    expect(harness.executor.link.streamCount).toBe(1);
  });
});

describe('limits', () => {
  test('streams', async () => {
    const harness = openHarness();
    for (let from = 0; from < MAX_STREAMS; from += MAX_PENDING_HANDSHAKES / 2) {
      const batch = Array.from({ length: MAX_PENDING_HANDSHAKES / 2 }, (_, index) => `s${from + index}`);
      await Promise.all(batch.map((streamId) => harness.connect(streamId)));
    }
    expect(harness.executor.link.streamCount).toBe(MAX_STREAMS);
    await harness.start('one too many');
    await harness.untilResets('one too many', 1);
    harness.send('s0', { kind: 'reset', reason: 'x' });
    await harness.connect('fits again');
  });

  test('concurrent handshakes, and the time of each', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let asked = 0;
    const harness = openHarness({
      validate: () => {
        asked++;
        return new Promise(() => {});
      },
    });
    for (let index = 0; index < MAX_PENDING_HANDSHAKES; index++) await harness.start(`s${index}`);
    while (asked < MAX_PENDING_HANDSHAKES) await settle(1);
    await harness.start('one too many');
    await settle();
    expect(harness.resets('one too many')).toBe(1);
    vi.advanceTimersByTime(VALIDATION_TIMEOUT_MS - 1);
    await settle();
    expect(harness.resets('s0')).toBe(0);
    vi.advanceTimersByTime(1);
    await settle();
    for (let index = 0; index < MAX_PENDING_HANDSHAKES; index++) expect(harness.resets(`s${index}`)).toBe(1);
  });

  test('handshakes that are started and cancelled', async () => {
    const harness = openHarness();
    const { message } = await harness.start('first');
    await waitFor('the first stream', () => harness.executor.accepted.length === 1);
    const count = 3 * MAX_PENDING_HANDSHAKES;
    for (let index = 0; index < count; index++) {
      harness.send(`s${index}`, { kind: 'handshake', payload: message });
      harness.send(`s${index}`, { kind: 'reset', reason: 'x' });
    }
    await waitFor('the refusals', () => harness.received.length === 1 + count - MAX_PENDING_HANDSHAKES);
    await settle(3 * MAX_PENDING_HANDSHAKES);
    await harness.connect('after the limit');
  });

  test('an authorization has at most 4096 bytes of UTF-8', async () => {
    const authorizations: string[] = [];
    const harness = openHarness({
      validate: ({ authorization }) => {
        authorizations.push(authorization);
        return Promise.resolve(true);
      },
    });
    await harness.connect('longest', Buffer.alloc(MAX_AUTHORIZATION_BYTES, 'a'));
    await harness.connect('empty', Buffer.alloc(0));
    await harness.start('too long', Buffer.alloc(MAX_AUTHORIZATION_BYTES + 1, 'a'));
    await harness.untilResets('too long', 1);
    await harness.start('not text', Buffer.of(0xff));
    await harness.untilResets('not text', 1);
    expect(authorizations.map(({ length }) => length)).toEqual([MAX_AUTHORIZATION_BYTES, 0]);
  });

  test('failed handshakes: refuses new ones during the cooldown, keeps open streams', async () => {
    let nowMs = 1_000;
    let valid = true;
    const harness = openHarness({ now: () => nowMs, validate: () => Promise.resolve(valid) });
    const channel = await harness.connect('open');
    valid = false;
    for (let index = 1; index < MAX_FAILED_HANDSHAKES; index++) {
      await harness.start(`refused ${index}`);
      await harness.untilResets(`refused ${index}`, 1);
    }
    valid = true;
    await harness.connect('a success changes nothing');
    harness.send('undecryptable', { kind: 'handshake', payload: Buffer.alloc(4000) });
    await harness.untilResets('undecryptable', 1);
    await harness.start('in the cooldown');
    await harness.untilResets('in the cooldown', 1);
    nowMs += HANDSHAKE_COOLDOWN_MS - 1;
    await harness.start('just before its end');
    await harness.untilResets('just before its end', 1);
    harness.sendRecord('open', channel, frameText('not disturbed'));
    await harness.executor.accepted[0]!.events.untilMessages(1);
    nowMs += 1;
    await harness.connect('after it');
  });

  test('a repeated handshake during validation counts as failed', async () => {
    const harness = openHarness({ now: () => 0, validate: never });
    for (let index = 0; index < MAX_FAILED_HANDSHAKES; index++) {
      await harness.start(`s${index}`);
      await harness.start(`s${index}`);
      await harness.untilResets(`s${index}`, 1);
    }
    await harness.start('in the cooldown');
    await harness.untilResets('in the cooldown', 1);
  });

  test('queued messages', async () => {
    const harness = openHarness();
    const channel = await harness.connect('s');
    const { transport, events } = harness.executor.accepted[0]!;
    transport.setReceiving(false);
    for (let index = 0; index < MAX_QUEUED_MESSAGES; index++) {
      harness.sendRecord('s', channel, frameText(`m${index}`));
    }
    await settle();
    expect(events.log).toEqual([]);
    harness.sendRecord('s', channel, frameText('one too many'));
    await harness.untilResets('s', 1);
    expect(events.log).toEqual(['closed']);
  });

  test('early records', async () => {
    const harness = openHarness();
    const [fits, breaks] = [await harness.connect('fits'), await harness.connect('breaks')];
    const records = Array.from({ length: 65 }, (_, index) =>
      fits.ciphers.sending.seal(frameText(`${index}`)),
    );
    for (let seq = 64; seq >= 0; seq--) harness.send('fits', { kind: 'data', seq, payload: records[seq]! });
    const { events } = harness.executor.accepted[0]!;
    await events.untilMessages(65);
    expect(events.messages).toEqual(Array.from({ length: 65 }, (_, index) => `${index}`));
    const late = breaks.ciphers.sending.seal(frameText('x'));
    harness.send('breaks', { kind: 'data', seq: 65, payload: late });
    await harness.untilResets('breaks', 1);
  });

  test('queued control frames: stops reading from a peer that does not read', async () => {
    const harness = openHarness();
    harness.executorPipe.setCongested(true);
    const count = 2 * MAX_WAITING_CONTROL_FRAMES;
    for (let index = 0; index < count; index++) {
      harness.send('unknown', { kind: 'data', seq: index, payload: Buffer.of(1) });
      await settle(1);
    }
    expect(harness.executorPipe.receiving).toBe(false);
    harness.executorPipe.setCongested(false);
    await harness.untilResets('unknown', count);
    expect(harness.executorPipe.receiving).toBe(true);
  });
});

test('a lost pipe ends handshakes and streams that cannot resume', async () => {
  let lost = 0;
  const harness = openHarness({ pipeLost: () => lost++ });
  await harness.connect('s');
  await harness.start('pending');
  harness.executorPipe.cut();
  expect((await harness.executor.accepted[0]!.events.untilClosed()).code).toBe(CloseCode.abnormal);
  expect(lost).toBe(1);
  expect(harness.executor.link.streamCount).toBe(0);
  await settle();
  expect(harness.executor.accepted.length).toBe(1);
});

const never = () => new Promise<boolean>(() => {});

/** Returns a message with its length prefix. */
function frameText(text: string): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(Buffer.byteLength(text));
  return Buffer.concat([length, Buffer.from(text)]);
}

function openHarness(options: Partial<ExecutorLinkOptions> = {}): RawHarness {
  const harness = new RawHarness(options);
  opened.push(harness);
  return harness;
}

/** A harness that the test controls frame by frame, with any number of streams. */
class RawHarness {
  readonly executor: TestExecutor;
  readonly pipe: MemoryPipe;
  readonly executorPipe: MemoryPipe;
  readonly received: { readonly streamId: string; readonly body: FrameBody }[] = [];

  constructor(options: Partial<ExecutorLinkOptions>) {
    this.executor = new TestExecutor(options);
    [this.pipe, this.executorPipe] = createPipePair();
    this.executor.link.attach(this.executorPipe, REGISTRATION);
    this.pipe.open({
      frame: (bytes) => this.received.push(decodeFrame(bytes)),
      drained: () => {},
      closed: () => {},
    });
  }

  send(streamId: string, body: FrameBody): void {
    this.pipe.send(encodeFrame({ streamId, body }));
  }

  sendRecord(streamId: string, { ciphers: { sending } }: Channel, plaintext: Buffer): void {
    const seq = sending.nextSeq;
    this.send(streamId, { kind: 'data', seq, payload: sending.seal(plaintext) });
  }

  /** Sends message 1. */
  async start(streamId: string, payload: Buffer = Buffer.from('token')): Promise<InitiatorHandshake> {
    const initiator = await InitiatorHandshake.start({
      identity: harnessIdentity,
      executorKey: executorIdentity.publicKey,
      binding: { environmentId: 'env-1', registrationId: REGISTRATION, streamId },
      payload,
    });
    this.send(streamId, { kind: 'handshake', payload: initiator.message });
    return initiator;
  }

  /** Waits for message 2 and processes it. */
  async finish(streamId: string, initiator: InitiatorHandshake): Promise<Channel> {
    const body = await waitFor(`the answer for ${streamId}`, () => {
      const of = this.received.find((frame) => frame.streamId === streamId)?.body;
      return of?.kind === 'handshake' ? of : null;
    });
    return initiator.finish(body!.payload);
  }

  async connect(streamId: string, payload?: Buffer): Promise<Channel> {
    return this.finish(streamId, await this.start(streamId, payload));
  }

  resets(streamId: string): number {
    return this.received.filter((frame) => frame.streamId === streamId && frame.body.kind === 'reset').length;
  }

  async untilResets(streamId: string, count: number): Promise<void> {
    await waitFor(`${count} resets of ${streamId}`, () => this.resets(streamId) >= count);
    expect(this.resets(streamId)).toBe(count);
  }
}
