import { afterEach, describe, expect, test, vi } from 'vitest';
import { DEFAULT_MESSAGE_LIMITS } from '../../../../src/protocol/limits.ts';
import { decodeFrame, encodeFrame } from '../../../../src/relay/frames/frame.ts';
import { HANDSHAKE_TIMEOUT_MS, REORDER_MAX_DISTANCE } from '../../../../src/relay/limits.ts';
import { createIdentity } from '../../../../src/relay/noise/identity.ts';
import { NoisePublicKey } from '../../../../src/relay/noise/public-key.ts';
import { HarnessLink } from '../../../../src/relay/stream/harness-link.ts';
import { RpcConnection } from '../../../../src/rpc/connection.ts';
import { BufferedMessage } from '../../../../src/transport/growable-buffer.ts';
import { CloseCode } from '../../../../src/transport/transport.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { RecordedEvents } from '../../transport/recorded-events.ts';
import {
  bodies,
  connectLinks,
  countOf,
  harnessIdentity,
  harnessOptions,
  REGISTRATION,
  settle,
  TestExecutor,
} from '../link-fixture.ts';
import { createPipePair } from '../memory-pipe.ts';

const executors: TestExecutor[] = [];
afterEach(() => {
  for (const { link } of executors.splice(0)) link.close({ code: CloseCode.goingAway, reason: 'test over' });
});

/** Options of a peer without acks, like the reference. */
const plain = { harness: { offerAcks: false } };

describe.each([
  ['with acks', { harness: {} }],
  ['without acks', plain],
])('a stream %s', (_name, options) => {
  test('carries messages in both directions, small and large, text and bytes', async () => {
    const { harness, events, served } = await connectLinks(options);
    const large = 'ü'.repeat(500_000);
    harness.transport.send('{"id":1}');
    harness.transport.send(Buffer.from(large));
    served.transport.send(large);
    served.transport.send('{"id":2}');
    await served.events.untilMessages(2);
    await events.untilMessages(2);
    expect(served.events.messages).toEqual(['{"id":1}', large]);
    expect(events.messages).toEqual([large, '{"id":2}']);
    harness.transport.close({ code: CloseCode.normal, reason: '' });
  });

  test('joins the parts of a message and releases them', async () => {
    const { harness, served } = await connectLinks(options);
    const parts = [Buffer.alloc(100_000, 'a'), Buffer.alloc(0), Buffer.alloc(100_000, 'b')];
    let released = 0;
    for (const part of parts) harness.transport.sendPart(part, false, () => released++);
    harness.transport.sendPart(Buffer.from('c'), true);
    await served.events.untilMessages(1);
    expect(served.events.messages).toEqual([Buffer.concat([...parts, Buffer.from('c')]).toString()]);
    expect(released).toBe(2);
    harness.transport.close({ code: CloseCode.normal, reason: '' });
  });

  test('delivers large messages as bytes if the owner supports it', async () => {
    const sizes: number[] = [];
    const executor = new TestExecutor({
      accept: (transport) =>
        transport.open({
          message: (text) => sizes.push(-text.length),
          largeMessage: (expectedBytes) =>
            new BufferedMessage(expectedBytes, (bytes) => sizes.push(bytes.length)),
          undecodable: () => {},
          drained: () => {},
          ended: () => {},
          closed: () => {},
        }),
    });
    executors.push(executor);
    const [harnessPipe, executorPipe] = createPipePair();
    executor.link.attach(executorPipe, REGISTRATION);
    const harness = await HarnessLink.connect(harnessPipe, { ...harnessOptions, ...options.harness });
    harness.transport.open(new RecordedEvents());
    harness.transport.send('x'.repeat(64 * 1024 - 1));
    harness.transport.send('x'.repeat(64 * 1024));
    await waitFor('both messages', () => sizes.length === 2);
    expect(sizes).toEqual([-(64 * 1024 - 1), 64 * 1024]);
    harness.transport.close({ code: CloseCode.normal, reason: '' });
  });

  test('sends queued messages before it closes, then its reset', async () => {
    const { harness, events, harnessPipe, executor, served } = await connectLinks(options);
    const messages = ['first', 'x'.repeat(1_000_000), 'last'];
    for (const message of messages) harness.transport.send(message);
    harness.transport.close({ code: CloseCode.normal, reason: 'done' });
    harness.transport.send('too late');
    await served.events.untilClosed();
    expect(served.events.messages).toEqual(messages);
    expect(served.events.closeReason?.code).toBe(CloseCode.abnormal);
    expect(await events.untilClosed()).toEqual({ code: CloseCode.normal, reason: 'done' });
    expect(bodies(harnessPipe).at(-1)).toEqual({ kind: 'reset', reason: 'noise_relay_protocol_error' });
    expect(harnessPipe.closed).toBe(true);
    expect(executor.link.streamCount).toBe(0);
  });

  test('is closed by the executor with a reset, and keeps the pipe', async () => {
    const { executorPipe, events, served, executor } = await connectLinks(options);
    served.transport.send('bye');
    served.transport.close({ code: CloseCode.normal, reason: '' });
    await events.untilClosed();
    expect(events.log).toEqual(['message bye', 'closed']);
    expect(countOf(executorPipe, 'reset')).toBe(1);
    expect(executor.link.streamCount).toBe(0);
  });

  test('keeps messages until it is opened and while reading is paused', async () => {
    const { harness, served } = await connectLinks(options);
    served.transport.setReceiving(false);
    for (let index = 0; index < 20; index++) harness.transport.send(`m${index}`);
    await settle();
    expect(served.events.messages).toEqual([]);
    served.transport.setReceiving(true);
    await served.events.untilMessages(20);
    expect(served.events.messages.at(-1)).toBe('m19');
    harness.transport.close({ code: CloseCode.normal, reason: '' });
  });

  test('reports back-pressure while the pipe is congested', async () => {
    const { harness, events, harnessPipe, served } = await connectLinks(options);
    harnessPipe.setCongested(true);
    const message = 'x'.repeat(50_000);
    let sent = 0;
    while (harness.transport.send(message)) sent++;
    expect(sent).toBeLessThan(10);
    await settle();
    const framesThen = countOf(harnessPipe, 'data');
    expect(framesThen).toBeLessThanOrEqual(1);
    expect(events.count('drained')).toBe(0);
    harnessPipe.setCongested(false);
    await events.until(() => events.count('drained') === 1);
    await served.events.untilMessages(sent + 1);
    harness.transport.close({ code: CloseCode.normal, reason: '' });
  });

  test('ends at a message that is too large', async () => {
    const { harness, events } = await connectLinks(options);
    const part = Buffer.alloc(32 * 1024 * 1024, 'x');
    harness.transport.sendPart(part, false);
    harness.transport.sendPart(part, false);
    harness.transport.sendPart(Buffer.from('x'), true);
    expect((await events.untilClosed()).code).toBe(CloseCode.messageTooBig);
  });
});

test('carries JSON-RPC calls like any transport', async () => {
  const options = { limits: DEFAULT_MESSAGE_LIMITS, outboundHighWaterBytes: 1_000_000 };
  const events = {
    notification: () => {},
    unexpectedResponse: () => {},
    ended: () => {},
    closed: () => {},
    bulk: () => {},
    responses: () => {},
  };
  const executor = new TestExecutor({
    accept: (transport) => {
      const server = new RpcConnection(transport, options);
      server.open({ ...events, request: ({ id, params }) => void server.respond(id, params) });
    },
  });
  executors.push(executor);
  const [harnessPipe, executorPipe] = createPipePair();
  executor.link.attach(executorPipe, REGISTRATION);
  const { transport } = await HarnessLink.connect(harnessPipe, harnessOptions);
  const client = new RpcConnection(transport, options);
  client.open({ ...events, request: () => {} });
  const params = { text: 'x'.repeat(200_000) };
  expect(await Promise.all([client.call('echo', params), client.call('echo', { n: 1 })])).toEqual([
    params,
    { n: 1 },
  ]);
  client.close({ code: CloseCode.normal, reason: '' });
});

test("sends exactly the reference's frames to a peer without acks", async () => {
  const { harness, harnessPipe, executorPipe, served, events } = await connectLinks(plain);
  expect(harness.resumable).toBe(false);
  harness.transport.send('a');
  served.transport.send('b');
  await events.untilMessages(1);
  await settle();
  expect(bodies(harnessPipe).map(({ kind }) => kind)).toEqual(['resume', 'handshake', 'data']);
  expect(bodies(executorPipe).map(({ kind }) => kind)).toEqual(['handshake', 'data']);
  for (const bytes of [...harnessPipe.sent, ...executorPipe.sent]) {
    expect(decodeFrame(bytes)).toMatchObject({ ack: 0, ackBits: 0, streamId: harness.streamId });
  }
  harness.transport.close({ code: CloseCode.normal, reason: '' });
});

test('offers and accepts acks only in the handshake', async () => {
  const { harness, harnessPipe, executorPipe } = await connectLinks();
  expect(harness.resumable).toBe(true);
  expect(decodeFrame(harnessPipe.sent[0]!)).toMatchObject({ ack: 0, ackBits: 0 });
  expect(decodeFrame(harnessPipe.sent[1]!)).toMatchObject({ ack: 0, ackBits: 0x61636b31 });
  expect(decodeFrame(executorPipe.sent[0]!)).toMatchObject({ ack: 0, ackBits: 0x61636b31 });
  harness.transport.close({ code: CloseCode.normal, reason: '' });
});

test('keeps two streams of one executor separate', async () => {
  const executor = new TestExecutor();
  executors.push(executor);
  const rendezvous = await twoHarnesses(executor);
  const [first, second] = rendezvous;
  first.transport.send('one');
  second.transport.send('two');
  await waitFor('both messages', () => executor.accepted.every(({ events }) => events.messages.length === 1));
  expect(executor.accepted.map(({ events }) => events.messages[0])).toEqual(['one', 'two']);
  expect(executor.accepted.map(({ peer }) => peer.streamId)).toEqual([first.streamId, second.streamId]);
  const uuid4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
  expect(first.streamId).toMatch(uuid4);
  expect(second.streamId).toMatch(uuid4);
  expect(second.streamId).not.toBe(first.streamId);
  expect(executor.accepted[0]!.peer.harnessKey.equals(harnessIdentity.publicKey)).toBe(true);
  first.transport.close({ code: CloseCode.normal, reason: '' });
  await executor.accepted[0]!.events.untilClosed();
  second.transport.send('still here');
  await executor.accepted[1]!.events.untilMessages(2);
});

test('reports to the harness why it cannot connect', async () => {
  const refusing = new TestExecutor({ validate: () => Promise.resolve(false) });
  executors.push(refusing);
  const connect = (options: Partial<typeof harnessOptions>, executor: TestExecutor | null) => {
    const [harnessPipe, executorPipe] = createPipePair();
    executor?.link.attach(executorPipe, REGISTRATION);
    return {
      harnessPipe,
      executorPipe,
      link: HarnessLink.connect(harnessPipe, { ...harnessOptions, ...options }),
    };
  };
  await expect(connect({}, refusing).link).rejects.toMatchObject({ kind: 'refused' });
  const otherKey = connect({ executorKey: createIdentity().publicKey }, refusing);
  await expect(otherKey.link).rejects.toMatchObject({ kind: 'refused' });
  expect(otherKey.harnessPipe.closed).toBe(true);

  const { x25519 } = createIdentity().publicKey;
  const noKey = connect({ executorKey: new NoisePublicKey(x25519, Buffer.alloc(1_184, 0xff)) }, null);
  await expect(noKey.link).rejects.toMatchObject({ kind: 'handshake' });
  expect(noKey.harnessPipe.closed).toBe(true);

  const lost = connect({}, null);
  await waitFor('the handshake', () => lost.harnessPipe.sent.length === 2);
  lost.harnessPipe.cut();
  await expect(lost.link).rejects.toMatchObject({ kind: 'lost' });

  const aborted = connect({ signal: AbortSignal.abort(new Error('enough')) }, null);
  await expect(aborted.link).rejects.toThrow('enough');

  for (const [kind, body] of [
    ['protocol', { kind: 'data', seq: 0, payload: Buffer.of(1) }],
    ['handshake', { kind: 'handshake', payload: Buffer.of(1) }],
  ] as const) {
    const attempt = connect({}, null);
    await waitFor('the handshake', () => attempt.harnessPipe.sent.length === 2);
    const { streamId } = decodeFrame(attempt.harnessPipe.sent[0]!);
    attempt.harnessPipe.inject(encodeFrame({ streamId: 'another', body }));
    attempt.harnessPipe.inject(encodeFrame({ streamId, body }));
    await expect(attempt.link).rejects.toMatchObject({ kind });
  }
  const garbage = connect({}, null);
  garbage.harnessPipe.inject(Buffer.from('garbage'));
  await expect(garbage.link).rejects.toMatchObject({ kind: 'protocol' });
});

test('limits the time for the answer of the executor and the frames kept after it', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const [silentPipe] = createPipePair();
  const silent = HarnessLink.connect(silentPipe, harnessOptions);
  silent.catch(() => {});
  while (silentPipe.sent.length < 2) await settle(1);
  vi.advanceTimersByTime(HANDSHAKE_TIMEOUT_MS - 1);
  await settle();
  expect(silentPipe.closed).toBe(false);
  vi.advanceTimersByTime(1);
  await expect(silent).rejects.toMatchObject({ kind: 'timeout' });
  expect(silentPipe.closed).toBe(true);
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();

  for (const [count, ends] of [
    [REORDER_MAX_DISTANCE, false],
    [REORDER_MAX_DISTANCE + 1, true],
  ] as const) {
    const executor = new TestExecutor();
    executors.push(executor);
    const [harnessPipe, executorPipe] = createPipePair();
    // The frames arrive together with the answer, which takes several event loop iterations to process.
    executorPipe.fault = (frame) => [frame, ...Array.from({ length: count }, () => heartbeat(frame))];
    executor.link.attach(executorPipe, REGISTRATION);
    const link = HarnessLink.connect(harnessPipe, harnessOptions);
    if (ends) await expect(link).rejects.toMatchObject({ kind: 'protocol' });
    else (await link).transport.close({ code: CloseCode.normal, reason: '' });
  }
});

const heartbeat = (frame: Uint8Array) =>
  encodeFrame({ streamId: decodeFrame(frame).streamId, body: { kind: 'heartbeat' } });

/** Joins the pipes of two harnesses into the executor's pipe, as a rendezvous does. */
async function twoHarnesses(executor: TestExecutor): Promise<[HarnessLink, HarnessLink]> {
  const [left, executorPipe] = createPipePair();
  executor.link.attach(executorPipe, REGISTRATION);
  const routes = new Map<string, (frame: Uint8Array) => void>();
  left.open({
    frame: (frame) => routes.get(decodeFrame(frame).streamId)?.(frame),
    drained: () => {},
    closed: () => {},
  });
  const connect = async () => {
    const [harnessPipe, service] = createPipePair();
    service.open({
      frame: (frame) => {
        routes.set(decodeFrame(frame).streamId, (answer) => service.send(answer));
        left.send(frame);
      },
      drained: () => {},
      closed: () => {},
    });
    return HarnessLink.connect(harnessPipe, harnessOptions);
  };
  const first = await connect();
  return [first, await connect()];
}
