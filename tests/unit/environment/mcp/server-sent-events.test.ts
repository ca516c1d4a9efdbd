import { expect, test } from 'vitest';
import {
  type ServerSentEvent,
  serverSentEvents,
} from '../../../../src/environment/mcp/server-sent-events.ts';

async function events(maxBytes: number, ...pieces: string[]): Promise<ServerSentEvent[]> {
  const body = ReadableStream.from(pieces.map((piece) => new TextEncoder().encode(piece)));
  const found: ServerSentEvent[] = [];
  for await (const event of serverSentEvents(body as ReadableStream<Uint8Array>, maxBytes)) found.push(event);
  return found;
}

const PLAIN = { id: null, event: 'message', retryMs: null };

test('events have data of several lines, a name, an id and a pause', async () => {
  expect(await events(100, 'data: a\nda', 'ta:b\n\nid: 7\nevent: e\nretry: 20\ndata\n\n')).toEqual([
    { ...PLAIN, data: 'a\nb' },
    { id: '7', event: 'e', retryMs: 20, data: '' },
  ]);
});

test('comments, unknown fields and bad values count for nothing', async () => {
  expect(await events(100, ': alive\n\nretry: soon\nid: a\0b\nother: x\ndata: y\r\n\r\n')).toEqual([
    { ...PLAIN, data: 'y' },
  ]);
});

test('an event that is cut off is dropped', async () => {
  expect(await events(100, 'data: a\n\ndata: b\n')).toEqual([{ ...PLAIN, data: 'a' }]);
});

test('an event that is too large is an error, in one line or in many', async () => {
  await expect(events(10, `data: ${'x'.repeat(11)}\n\n`)).rejects.toThrow('a line is longer than 10 bytes');
  await expect(events(10, 'data: xxx\n'.repeat(4))).rejects.toThrow('an event has more than 10 bytes');
});

test('an event of empty lines without end is too large, too', async () => {
  await expect(events(10, 'data:\n'.repeat(11))).rejects.toThrow('an event has more than 10 bytes');
});

test('an event without a name is a message', async () => {
  expect(await events(100, 'event:\ndata: a\n\n')).toEqual([{ ...PLAIN, data: 'a' }]);
});
