import { expect, test } from 'vitest';
import type { RequestId } from '../../../src/protocol/envelope.ts';
import { DEFAULT_MESSAGE_LIMITS } from '../../../src/protocol/limits.ts';
import { RpcConnection } from '../../../src/rpc/connection.ts';
import { BytesResult } from '../../../src/rpc/results.ts';
import { createMemoryPair } from '../../../src/transport/memory.ts';
import { RecordedEvents } from '../transport/recorded-events.ts';

const ID = '1' as RequestId;

test('sends a BytesResult as one message and checks its size', async () => {
  const [peer, transport] = createMemoryPair();
  const connection = new RpcConnection(transport, {
    limits: DEFAULT_MESSAGE_LIMITS,
    outboundHighWaterBytes: 1_000,
    maxResponseBytes: 100,
  });
  const received = RecordedEvents.of(peer);
  void connection.respond(ID, new BytesResult('{"list":[', Buffer.from('1,2'), '],"more":"\u00e9"}'));
  const tooLarge = new BytesResult('[', Buffer.alloc(100, '1'), ']');
  expect(() => connection.respond(ID, tooLarge)).toThrow('the response has 101 bytes');
  await received.untilMessages(1);
  expect(received.messages).toEqual(['{"id":1,"result":{"list":[1,2],"more":"\u00e9"}}']);
});
