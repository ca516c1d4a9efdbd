import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type {
  ErrorMessage,
  NotificationMessage,
  RequestId,
  RequestMessage,
  ResponseMessage,
} from '../../../src/protocol/envelope.ts';
import { DEFAULT_MESSAGE_LIMITS } from '../../../src/protocol/limits.ts';
import { type ConnectionEvents, RpcConnection } from '../../../src/rpc/connection.ts';
import { BINARY_MIN_BYTES } from '../../../src/rpc/limits.ts';
import { Base64Result, StreamedResult } from '../../../src/rpc/results.ts';
import { createMemoryPair } from '../../../src/transport/memory.ts';

class Recorder implements ConnectionEvents {
  readonly requests: RequestMessage[] = [];
  readonly notifications: NotificationMessage[] = [];
  readonly unexpected: (ResponseMessage | ErrorMessage)[] = [];

  request(message: RequestMessage): void {
    this.requests.push(message);
  }
  notification(message: NotificationMessage): void {
    this.notifications.push(message);
  }
  unexpectedResponse(message: ResponseMessage | ErrorMessage): void {
    this.unexpected.push(message);
  }
  bulk(): void {}
  responses(): void {}
  ended(): void {}
  closed(): void {}
}

const LARGE = Buffer.alloc(BINARY_MIN_BYTES, 'abc');

function connectPair(useBytes = true) {
  const options = { limits: DEFAULT_MESSAGE_LIMITS, outboundHighWaterBytes: 1_000, maxResponseBytes: 8_192 };
  const [ours, theirs] = createMemoryPair({ carriesBytes: true });
  const [client, server] = [new RpcConnection(ours, options), new RpcConnection(theirs, options)];
  const [clientEvents, serverEvents] = [new Recorder(), new Recorder()];
  client.open(clientEvents);
  server.open(serverEvents);
  if (useBytes) for (const connection of [client, server]) connection.useBytes();
  return { client, server, clientEvents, serverEvents, ours };
}

test('a request has the bytes beside its params', async () => {
  const { client, serverEvents } = connectPair();
  void client.call('fs/writeBlock', { chunk: LARGE, offset: 1 }).catch(() => {});
  await nextTurn();
  const [request] = serverEvents.requests;
  expect(request).toMatchObject({
    params: { chunk: '', offset: 1 },
    bulk: { field: 'chunk', problem: null },
  });
  expect(Buffer.from(request!.bulk!.bytes).equals(LARGE)).toBe(true);
  expect(request!.bulk!.text()).toBe(LARGE.toString('base64'));
  expect(request!.bytes).toBeGreaterThan('{"id":1,"method":"fs/writeBlock"}'.length + LARGE.length);
  client.abandon({ code: 1000, reason: '' });
});

test.each([
  ['few bytes', 'fs/writeBlock', { chunk: LARGE.subarray(1) }, true],
  ['bytes of a method that has none in binary messages', 'm', { chunk: LARGE }, true],
  ['bytes in another member', 'fs/writeBlock', { data: LARGE }, true],
  ['bytes for a peer that has not agreed', 'fs/writeBlock', { chunk: LARGE }, false],
])('sends %s as base64', async (_case, method, params, useBytes) => {
  const { client, serverEvents } = connectPair(useBytes);
  void client.call(method, params).catch(() => {});
  await nextTurn();
  const [bytes] = Object.values(params);
  expect(Object.values(serverEvents.requests[0]!.params as object)).toEqual([bytes!.toString('base64')]);
  client.abandon({ code: 1000, reason: '' });
});

test('results and notifications have them in place of base64', async () => {
  const { client, server, clientEvents } = connectPair();
  const buffer = Buffer.from(LARGE);
  let rest = Buffer.from('def');
  const read = async (into: Buffer) => {
    const length = rest.copy(into);
    rest = rest.subarray(length);
    return length;
  };
  const source = { read, close: async () => {} };
  const whole = client.call('fs/readBlock');
  const streamed = client.call('fs/readFile');
  void server.respond(
    '1' as RequestId,
    new Base64Result('{"chunk":"', buffer, '","eof":true}', { release: () => buffer.fill('x') }),
  );
  const result = new StreamedResult('{"dataBase64":"', Buffer.from(LARGE), source, '"}');
  await server.respond('2' as RequestId, result);
  const text = '{"method":"process/output","params":{"seq":1,"chunk":""}}';
  server.sendBulk({ text, bytes: buffer });
  expect(await whole).toEqual({ chunk: LARGE, eof: true });
  expect(await streamed).toEqual({ dataBase64: Buffer.concat([LARGE, Buffer.from('def')]) });
  await nextTurn();
  expect(clientEvents.notifications).toMatchObject([{ params: { seq: 1, chunk: buffer } }]);
  expect(buffer.toString()).toMatch(/^x+$/);
});

test('a result that is too large is refused, and its bytes are released', () => {
  const { server } = connectPair();
  let released = 0;
  const result = new Base64Result('{"chunk":"', Buffer.alloc(8_193), '"}', { release: () => released++ });
  expect(() => server.respond('1' as RequestId, result)).toThrow('the response has 8193 bytes');
  expect(released).toBe(1);
});

test.each([
  [
    '{"id":7,"method":"environment/status","params":{}}',
    'no bytes belong to requests of `environment/status`',
    '7',
  ],
  ['{"id":7,"method":"constructor","params":{}}', 'no bytes belong to requests of `constructor`', '7'],
  [
    '{"id":7,"method":"fs/writeBlock","params":{}}',
    '`chunk` of a binary message must be an empty string',
    '7',
  ],
  ['{"id":7,"method":"fs/writeBlock"}', '`chunk` of a binary message must be an empty string', '7'],
  [
    '{"id":7,"method":"fs/writeBlock","params":{"chunk":"YQ=="}}',
    '`chunk` of a binary message must be an empty string',
    '7',
  ],
  ['{"method":"initialized","params":{}}', 'no bytes belong to notifications of `initialized`', '-1'],
  ['{"id":7,"error":{"code":1,"message":"m"}}', 'an error is not sent as a binary message', '-1'],
  ['{"id":7', 'not valid JSON', '-1'],
])('refuses %s', async (text, reason, id) => {
  const { ours, client, clientEvents, serverEvents } = connectPair();
  ours.sendBytes?.({ text, bytes: LARGE });
  await nextTurn();
  await nextTurn();
  expect(clientEvents.unexpected).toMatchObject([
    { id, error: { code: -32600, message: expect.stringContaining(reason) } },
  ]);
  expect([...serverEvents.requests, ...serverEvents.notifications]).toEqual([]);
  client.abandon({ code: 1000, reason: '' });
});

test('ignores bytes that answer a call that was given up', async () => {
  const { client, server, clientEvents } = connectPair();
  const giveUp = new AbortController();
  const call = client.call('fs/readBlock', {}, { signal: giveUp.signal });
  giveUp.abort();
  await expect(call).rejects.toThrow();
  void server.respond('1' as RequestId, new Base64Result('{"chunk":"', LARGE, '"}'));
  await nextTurn();
  expect(clientEvents.unexpected).toEqual([]);
});
