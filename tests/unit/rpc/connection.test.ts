import { setMaxListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { NotificationMessage, RequestId, RequestMessage } from '../../../src/protocol/envelope.ts';
import { internalError, RpcError } from '../../../src/protocol/errors.ts';
import { DEFAULT_MESSAGE_LIMITS } from '../../../src/protocol/limits.ts';
import { ConnectionClosedError, type ConnectionEvents, RpcConnection } from '../../../src/rpc/connection.ts';
import { MAX_MALFORMED_IN_A_ROW, MAX_PENDING_CALLS } from '../../../src/rpc/limits.ts';
import { TooManyCallsError } from '../../../src/rpc/outgoing-calls.ts';
import { Base64Result, StreamedResult } from '../../../src/rpc/results.ts';
import { createMemoryPair } from '../../../src/transport/memory.ts';
import type { CloseReason, Transport } from '../../../src/transport/transport.ts';
import { RecordedEvents } from '../transport/recorded-events.ts';

class Recorder implements ConnectionEvents {
  readonly requests: RequestMessage[] = [];
  readonly notifications: NotificationMessage[] = [];
  readonly log: string[] = [];
  reason: CloseReason | null = null;

  request(message: RequestMessage): void {
    this.requests.push(message);
  }
  notification(message: NotificationMessage): void {
    this.notifications.push(message);
  }
  unexpectedResponse(): void {
    this.log.push('unexpected response');
  }
  bulk(stopped: boolean): void {
    this.log.push(stopped ? 'bulk stopped' : 'bulk flows');
  }
  responses(stopped: boolean): void {
    this.log.push(stopped ? 'answers stopped' : 'answers flow');
  }
  ended(): void {
    this.log.push('ended');
  }
  closed(reason: CloseReason): void {
    this.reason = reason;
    this.log.push('closed');
  }
}

/** A connection, its recorded events, and the bare peer at the other end. */
function connect(properties: Pick<Transport, 'maxUnansweredRequests'> = {}) {
  const [peer, transport] = createMemoryPair();
  Object.assign(transport, properties);
  const connection = new RpcConnection(transport, {
    limits: DEFAULT_MESSAGE_LIMITS,
    outboundHighWaterBytes: 1_000,
  });
  const recorder = new Recorder();
  connection.open(recorder);
  const received = RecordedEvents.of(peer);
  return { peer, transport, connection, recorder, received };
}

const bulk = (text: string) => Buffer.from(text);

test('distinguishes requests and notifications', async () => {
  const { peer, recorder } = connect();
  peer.send('{"id":"x","method":"a","params":{"p":1}}');
  peer.send('{"method":"b"}');
  await nextTurn();
  expect(recorder.requests).toMatchObject([{ id: '"x"', method: 'a', params: { p: 1 } }]);
  expect(recorder.notifications).toMatchObject([{ method: 'b' }]);
});

test.each(['{', '', '[]', 'null', '{"id":1.0,"method":"m"}', '{"id":1,"method":"m","id":2}'])(
  'answers the malformed message %j with id -1 and continues',
  async (text) => {
    const { peer, recorder, received } = connect();
    peer.send(text);
    peer.send('{"id":1,"method":"m"}');
    await received.untilMessages(1);
    expect(received.messages.map((message) => JSON.parse(message))).toMatchObject([
      { error: { code: -32600 }, id: -1 },
    ]);
    expect(recorder.requests).toHaveLength(1);
    expect(recorder.log).toEqual([]);
  },
);

test('closes the connection after too many malformed messages in a row', async () => {
  const { peer, recorder, received } = connect();
  const reports: string[] = [];
  Object.assign(recorder, { tooManyMalformed: (reason: string) => reports.push(reason) });
  const sendMalformed = (count: number) => {
    for (let index = 0; index < count; index++) peer.send('{');
  };
  sendMalformed(MAX_MALFORMED_IN_A_ROW - 1);
  peer.send('{"id":1,"method":"m"}');
  sendMalformed(MAX_MALFORMED_IN_A_ROW - 1);
  await received.untilMessages(2 * (MAX_MALFORMED_IN_A_ROW - 1));
  expect([recorder.requests.length, recorder.reason, reports]).toEqual([1, null, []]);

  sendMalformed(2);
  peer.send('{"id":2,"method":"m"}');
  await received.untilClosed();
  const reason = '1024 malformed messages in a row';
  expect(recorder.reason).toEqual({ code: 1002, reason });
  expect(reports).toEqual([reason]);
  // Every one was answered, and nothing after the last one was handled.
  expect(received.messages).toHaveLength(2 * MAX_MALFORMED_IN_A_ROW - 1);
  expect(recorder.requests).toHaveLength(1);
});

test('responses carry the id of their request', async () => {
  const { connection, received } = connect();
  const id = '9223372036854775807' as RequestId;
  void connection.respond(id, { ok: true });
  connection.refuse(id, internalError('no'));
  connection.notify('event', { x: 1 });
  await received.untilMessages(3);
  expect(received.messages).toEqual([
    '{"id":9223372036854775807,"result":{"ok":true}}',
    '{"error":{"code":-32603,"message":"no"},"id":9223372036854775807}',
    '{"method":"event","params":{"x":1}}',
  ]);
});

test('a streamed response is complete even if its source fails to close', async () => {
  const { connection, received } = connect();
  const source = { read: async () => 0, close: () => Promise.reject(new Error('disk')) };
  await connection.respond('1' as RequestId, new StreamedResult('"', Buffer.from('abc'), source, '"'));
  await received.untilMessages(1);
  expect(received.messages).toEqual(['{"id":1,"result":"YWJj"}']);
});

test('calls afterSent once the response is queued, so that later messages follow it', async () => {
  const { connection, received } = connect();
  const notify = () => connection.notify('next');
  void connection.respond(
    '1' as RequestId,
    new Base64Result('"', Buffer.from('abc'), '"', { afterSent: notify }),
  );
  await received.untilMessages(2);
  expect(received.messages).toEqual(['{"id":1,"result":"YWJj"}', '{"method":"next"}']);
});

test('a call resolves with its own response, in any order', async () => {
  const { peer, connection, received } = connect();
  const calls = [connection.call('first'), connection.call('second', { a: 1 }), connection.call('third')];
  await received.untilMessages(3);
  expect(received.messages[1]).toBe('{"id":2,"method":"second","params":{"a":1}}');
  peer.send('{"id":3,"error":{"code":-5,"message":"no","data":[1]}}');
  peer.send('{"id":2,"result":"two"}');
  peer.send('{"id":1,"result":null}');
  await expect(calls[2]).rejects.toThrow(RpcError);
  await expect(calls[2]).rejects.toMatchObject({ code: -5, message: 'no', data: [1] });
  expect(await Promise.all([calls[0], calls[1]])).toEqual([null, 'two']);
});

test.each([
  ['an id that was never used', '{"id":99,"result":1}'],
  ['an id that is a string', '{"id":"1","result":1}'],
  ['an error for an unknown id', '{"id":-1,"error":{"code":1,"message":"x"}}'],
])('reports a response with %s as unexpected', async (_name, text) => {
  const { peer, connection, recorder } = connect();
  const call = connection.call('m');
  peer.send(text);
  await nextTurn();
  await nextTurn();
  expect(recorder.log).toEqual(['unexpected response']);
  peer.send('{"id":1,"result":"still open"}');
  expect(await call).toBe('still open');
});

test('ignores a second response to one call', async () => {
  const { peer, connection, recorder } = connect();
  const call = connection.call('m');
  peer.send('{"id":1,"result":1}');
  peer.send('{"id":1,"result":2}');
  expect(await call).toBe(1);
  await nextTurn();
  expect(recorder.log).toEqual([]);
});

test('open and later calls fail when the connection ends', async () => {
  const { transport, connection, recorder } = connect();
  const calls = [connection.call('a'), connection.call('b')];
  const outcomes = Promise.allSettled(calls);
  transport.break();
  for (const outcome of await outcomes) {
    expect(outcome).toMatchObject({ status: 'rejected', reason: expect.any(ConnectionClosedError) });
  }
  await expect(connection.call('c')).rejects.toThrow('the connection is closed (1006: the link broke)');
  expect(recorder.reason).toMatchObject({ code: 1006 });
});

test('limits the number of open calls', async () => {
  const { peer, connection } = connect();
  const calls = Array.from({ length: MAX_PENDING_CALLS }, () => connection.call('m'));
  await expect(connection.call('m')).rejects.toThrow(`${MAX_PENDING_CALLS} calls are unanswered`);
  peer.send('{"id":1,"result":1}');
  await calls[0];
  const next = connection.call('m');
  peer.send(`{"id":${MAX_PENDING_CALLS + 1},"result":"slot free"}`);
  expect(await next).toBe('slot free');
});

test('control messages overtake bulk data on a slow connection', async () => {
  const { transport, connection, recorder, received } = connect();
  transport.setCongested(true);
  connection.sendBulk(bulk('"b1"'));
  connection.sendBulk(bulk('"b2"'));
  connection.notify('control');
  connection.sendBulk(bulk(`"${'x'.repeat(1_000)}"`));
  expect(connection.saturated).toBe(true);
  await received.untilMessages(2);
  expect(received.messages).toEqual(['"b1"', '{"method":"control"}']);
  transport.setCongested(false);
  await received.untilMessages(4);
  expect(received.messages[2]).toBe('"b2"');
  expect(recorder.log).toEqual(['bulk stopped', 'bulk flows']);
  expect(connection.saturated).toBe(false);
});

test('receives no requests while receiving is paused', async () => {
  const { peer, connection, recorder } = connect();
  connection.setReceiving(false);
  peer.send('{"id":1,"method":"m"}');
  await nextTurn();
  expect(recorder.requests).toEqual([]);
  connection.setReceiving(true);
  await nextTurn();
  expect(recorder.requests).toHaveLength(1);
});

test('both ends see a close', async () => {
  const { connection, recorder, received } = connect();
  connection.close({ code: 1008, reason: 'why' });
  expect(await received.untilClosed()).toEqual({ code: 1008, reason: 'why' });
  expect(recorder.log).toEqual(['closed']);
});

test('an aborted call frees its slot, and its response is ignored', async () => {
  const { peer, connection, recorder } = connect();
  const aborter = new AbortController();
  setMaxListeners(0, aborter.signal);
  const calls = Array.from({ length: MAX_PENDING_CALLS }, () =>
    connection.call('m', {}, { signal: aborter.signal }),
  );
  const outcomes = Promise.allSettled(calls);
  aborter.abort(new Error('enough'));
  for (const outcome of await outcomes)
    expect(outcome).toEqual({ status: 'rejected', reason: new Error('enough') });
  peer.send('{"id":1,"result":1}');
  await nextTurn();
  await nextTurn();
  expect(recorder.log).toEqual([]);
  await expect(connection.call('m', {}, { signal: aborter.signal })).rejects.toThrow('enough');
  const next = connection.call('m', {}, { signal: new AbortController().signal });
  peer.send(`{"id":${MAX_PENDING_CALLS + 1},"result":"slot free"}`);
  expect(await next).toBe('slot free');
});

test('reserves one slot for cleanup calls', async () => {
  const { connection } = connect();
  const calls = Array.from({ length: MAX_PENDING_CALLS }, () => connection.call('m'));
  const reserved = connection.call('m', {}, { reserved: true });
  await expect(connection.call('m', {}, { reserved: true })).rejects.toThrow(TooManyCallsError);
  const outcomes = Promise.allSettled([...calls, reserved]);
  connection.close({ code: 1000, reason: '' });
  expect((await outcomes).every((outcome) => outcome.status === 'rejected')).toBe(true);
});

test("queues requests above the peer's limit until earlier ones are answered, including aborted ones", async () => {
  const { peer, connection, received } = connect({ maxUnansweredRequests: 2 });
  const giveUp = new AbortController();
  const [first, second, third] = [
    connection.call('first'),
    connection.call('second', {}, { signal: giveUp.signal }),
    connection.call('third'),
  ];
  const dropped = connection.call('dropped', {}, { signal: giveUp.signal });
  const fourth = connection.call('fourth');
  const urgent = connection.call('urgent', {}, { reserved: true });
  const methods = () => received.messages.map((text) => (JSON.parse(text) as { method: string }).method);
  await received.untilMessages(3);
  expect(methods()).toEqual(['first', 'second', 'urgent']);

  giveUp.abort(new Error('enough'));
  await expect(second).rejects.toThrow('enough');
  await expect(dropped).rejects.toThrow('enough');
  peer.send('{"id":1,"result":1}');
  expect(await first).toBe(1);
  expect(methods()).toEqual(['first', 'second', 'urgent']);
  peer.send('{"id":2,"result":2}');
  await received.untilMessages(4);
  peer.send('{"id":6,"result":6}');
  expect(await urgent).toBe(6);
  await received.untilMessages(5);
  expect(methods().slice(3)).toEqual(['third', 'fourth']);
  connection.close({ code: 1000, reason: '' });
  for (const call of [third, fourth]) await expect(call).rejects.toThrow(ConnectionClosedError);
});

test('a call that cannot be encoded takes no slot', async () => {
  const { connection } = connect();
  const calls = Array.from({ length: MAX_PENDING_CALLS }, () => connection.call('m', { n: 1n }));
  for (const outcome of await Promise.allSettled(calls)) expect(outcome.status).toBe('rejected');
  const call = connection.call('m');
  connection.close({ code: 1000, reason: '' });
  await expect(call).rejects.toThrow(ConnectionClosedError);
});

test.each(['\ud800', 'x\udc00', '\ud800\ud800\udc00', '\\\ud800', '"\udfff'])(
  'a call with the invalid text %j is rejected before it is sent',
  async (text) => {
    const { connection, received } = connect();
    const error = 'a string in the params is not valid Unicode';
    await expect(connection.call('m', { text })).rejects.toThrow(error);
    await expect(connection.call('m', { [text]: 1 })).rejects.toThrow(error);
    connection.call('last').catch(() => {});
    await received.untilMessages(1);
    expect(received.messages.map((message) => JSON.parse(message).method)).toEqual(['last']);
  },
);

test.each(['\ud83d\udca1', '\\ud800', '\\\\udfff', 'ud800', '\ufffd'])(
  'a call with the text %j is sent',
  async (text) => {
    const { connection, received } = connect();
    connection.call('m', { text }).catch(() => {});
    await received.untilMessages(1);
    expect(JSON.parse(received.messages[0]!).params).toEqual({ text });
  },
);

test('abandon ends the connection immediately, whatever the transport does', async () => {
  const { peer, connection, recorder, received } = connect();
  const call = connection.call('m');
  peer.send('{"id":1,"result":1}');
  peer.send('{"method":"late"}');
  connection.abandon({ code: 1002, reason: 'invalid message' });
  expect(recorder.log).toEqual(['closed']);
  await expect(call).rejects.toThrow('the connection is closed (1002: invalid message)');
  expect(await received.untilClosed()).toEqual({ code: 1002, reason: 'invalid message' });
  expect(recorder.notifications).toEqual([]);
  connection.abandon({ code: 1000, reason: 'again' });
  expect(recorder.log).toEqual(['closed']);
});

test('a client gets numbers unchanged, and malformed messages reported', async () => {
  const [peer, transport] = createMemoryPair();
  const connection = new RpcConnection(transport, {
    limits: DEFAULT_MESSAGE_LIMITS,
    outboundHighWaterBytes: 1_000,
    numbers: 'any',
  });
  const malformed: string[] = [];
  connection.open(Object.assign(new Recorder(), { malformed: (reason: string) => malformed.push(reason) }));
  const received = RecordedEvents.of(peer);
  const call = connection.call('m');
  peer.send('invalid message');
  peer.send('{"id":1,"result":[0.25,1e300,18446744073709551616,1.0]}');
  expect(await call).toEqual([0.25, 1e300, 2 ** 64, 1]);
  expect(malformed).toHaveLength(1);
  await nextTurn();
  expect(received.messages).toHaveLength(1);
});

test('bytes among the params of a call are sent as base64', async () => {
  const { connection, received } = connect();
  void connection.call('m', { data: Buffer.from('abc'), more: 1 }).catch(() => {});
  await received.untilMessages(1);
  expect(received.messages).toEqual(['{"id":1,"method":"m","params":{"more":1,"data":"YWJj"}}']);
  connection.abandon({ code: 1000, reason: '' });
});
