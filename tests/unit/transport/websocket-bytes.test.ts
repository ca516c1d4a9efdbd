import { once } from 'node:events';
import { expect, test } from 'vitest';
import { encodeBinaryHead } from '../../../src/transport/binary-message.ts';
import type { Transport } from '../../../src/transport/transport.ts';
import { connectWebSocket } from '../../../src/transport/websocket.ts';
import { RecordedEvents } from './recorded-events.ts';
import { listen, pair } from './websocket-peers.ts';

/** Two ends that may send binary messages. */
async function agreed(maxMessageBytes = 10_000_000) {
  const server = await listen({ maxMessageBytes });
  const client = await connectWebSocket(server.url);
  const ends = [client, await server.accepted()] as const;
  for (const end of ends) end.acceptBytes?.();
  const [clientEvents, serverEvents] = [RecordedEvents.of(ends[0]), RecordedEvents.of(ends[1])];
  return { client: ends[0], server: ends[1], clientEvents, serverEvents };
}

/** Small, larger than what arrives in one read, and larger than what is allocated at once. */
const SIZES = [0, 5, 65_530, 200_000, 3_000_000];

test.each(SIZES)('a binary message with %i bytes arrives at either end, in order with text', async (size) => {
  const { client, server, clientEvents, serverEvents } = await agreed();
  const bytes = Buffer.alloc(size, 'abcdefg');
  const exchange = async (from: Transport, events: RecordedEvents) => {
    const sent = new Promise<void>((resolve) => {
      from.send('first');
      from.sendBytes?.({ text: '{"ä":1}', bytes }, resolve);
      from.send('last');
    });
    await events.untilMessages(2);
    await sent;
    const log = events.log.filter((entry) => entry !== 'drained');
    expect(log).toHaveLength(3);
    expect([log[0], log[2]]).toEqual(['message first', 'message last']);
    // A comparison of megabytes takes long when it fails.
    expect(log[1] === `bytes {"ä":1} ${bytes}`).toBe(true);
  };
  await exchange(client, serverEvents);
  await exchange(server, clientEvents);
});

test.each([1, 100_000])('a binary message of parts of %i bytes arrives at either end', async (size) => {
  const { client, server, clientEvents, serverEvents } = await agreed();
  for (const [from, events] of [
    [client, serverEvents],
    [server, clientEvents],
  ] as const) {
    from.sendPart(encodeBinaryHead('{}'), false, undefined, true);
    from.sendPart(Buffer.alloc(size, 'a'), false, undefined, true);
    from.sendPart(Buffer.alloc(0), true, undefined, true);
    await events.until(() => events.log.length > 0);
    expect(events.log).toEqual([`bytes {} ${'a'.repeat(size)}`]);
  }
});

test('a binary message is not valid text before both ends have agreed', async () => {
  const { client, events, transport } = await pair({ maxMessageBytes: 200_000 });
  const small = Buffer.concat([encodeBinaryHead('{}'), Buffer.from([0xff])]);
  const large = Buffer.concat([encodeBinaryHead('{}'), Buffer.alloc(100_000, 0xff)]);
  client.send(small);
  client.send(large);
  await events.until(() => events.log.length === 2);
  expect(new Set(events.log)).toEqual(new Set(['undecodable a binary frame is not valid UTF-8']));
  transport.acceptBytes?.();
  client.send(small);
  await events.until(() => events.log.length === 3);
  expect(events.log[2]).toMatch(/^bytes \{\}/);
});

test('binary frames with text still work after that', async () => {
  const { client, events, transport } = await pair({ maxMessageBytes: 200_000 });
  transport.acceptBytes?.();
  client.send(Buffer.from('{"small":1}'));
  client.send(Buffer.from(`"${'x'.repeat(100_000)}"`));
  client.send(Buffer.concat([Buffer.from('{'), Buffer.alloc(100_000, 0xff)]));
  await events.until(() => events.log.length === 3);
  expect(events.log[0]).toBe('message {"small":1}');
  expect(events.log[1]).toHaveLength('message ""'.length + 100_000);
  expect(events.log[2]).toBe('undecodable a binary frame is not valid UTF-8');
});

test.each([
  ['small', 0],
  ['large', 100_000],
])('a %s binary message that ends in its JSON is reported, and the next one works', async (_size, length) => {
  const { client, events, transport } = await pair({ maxMessageBytes: 200_000 });
  transport.acceptBytes?.();
  const payload = Buffer.alloc(4 + length, ' ');
  payload.writeUInt32BE(length + 1);
  client.send(payload);
  client.send('next');
  await events.untilMessages(1);
  expect(events.log).toEqual(['undecodable a binary message ends before its JSON does', 'message next']);
});

test('the limits of messages hold for binary ones', async () => {
  const { client, transport } = await pair({ maxMessageBytes: 1_000 });
  transport.acceptBytes?.();
  client.send(Buffer.alloc(1_001));
  const [code] = await once(client, 'close');
  expect(code).toBe(1009);
});

test('binary messages that do not end are refused when they are too many', async () => {
  const server = await listen({ maxMessageBytes: 100_000, maxUnfinishedBytes: 100_000 });
  const ends: RecordedEvents[] = [];
  for (let count = 0; count < 2; count++) {
    const client = await connectWebSocket(server.url);
    RecordedEvents.of(client);
    const transport = await server.accepted();
    transport.acceptBytes?.();
    ends.push(RecordedEvents.of(transport));
    client.sendPart(Buffer.alloc(60_000), false, undefined, true);
  }
  const reason = await Promise.race(ends.map((events) => events.untilClosed()));
  expect(reason).toMatchObject({ code: 1013 });
  expect(ends.filter(({ closeReason }) => closeReason === null)).toHaveLength(1);
});
