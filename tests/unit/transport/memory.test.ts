import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createMemoryPair } from '../../../src/transport/memory.ts';
import { RecordedEvents } from './recorded-events.ts';

test('messages arrive in order, in a later turn, as text', async () => {
  const [left, right] = createMemoryPair();
  const events = RecordedEvents.of(right);
  left.send('one');
  left.send(Buffer.from('zwé'));
  expect(events.log).toEqual([]);
  await events.untilMessages(2);
  expect(events.messages).toEqual(['one', 'zwé']);
});

test('keeps messages that arrive before open', async () => {
  const [left, right] = createMemoryPair();
  left.send('early');
  await nextTurn();
  const events = RecordedEvents.of(right);
  await events.untilMessages(1);
  expect(events.messages).toEqual(['early']);
});

test('delays messages and the close after them while receiving is paused', async () => {
  const [left, right] = createMemoryPair();
  const events = RecordedEvents.of(right);
  right.setReceiving(false);
  left.send('held');
  left.close({ code: 1000, reason: 'done' });
  await nextTurn();
  expect(events.log).toEqual([]);
  right.setReceiving(true);
  expect(await events.untilClosed()).toEqual({ code: 1000, reason: 'done' });
  expect(events.log).toEqual(['message held', 'closed']);
});

test('both ends see a close once, and nothing is sent after it', async () => {
  const [left, right] = createMemoryPair();
  const [leftEvents, rightEvents] = [RecordedEvents.of(left), RecordedEvents.of(right)];
  left.close({ code: 1001, reason: 'bye' });
  left.close({ code: 1000, reason: 'again' });
  expect(left.send('too late')).toBe(true);
  await rightEvents.untilClosed();
  await nextTurn();
  expect(leftEvents.log).toEqual(['closed']);
  expect(rightEvents.log).toEqual(['closed']);
  expect(rightEvents.closeReason?.code).toBe(1001);
});

test('a broken connection ends both sides abnormally and loses pending messages', async () => {
  const [left, right] = createMemoryPair();
  const [leftEvents, rightEvents] = [RecordedEvents.of(left), RecordedEvents.of(right)];
  left.send('lost');
  left.break();
  await nextTurn();
  expect(leftEvents.closeReason?.code).toBe(1006);
  expect(rightEvents.log).toEqual(['closed']);
});

test('a congested end asks to wait and reports when it has drained', () => {
  const [left] = createMemoryPair();
  const events = RecordedEvents.of(left);
  expect(left.send('a')).toBe(true);
  left.setCongested(true);
  expect(left.send('b')).toBe(false);
  left.setCongested(false);
  left.setCongested(false);
  expect(events.log).toEqual(['drained']);
  expect(left.send('c')).toBe(true);
});

test('bytes arrive beside their message, in order, where the pair carries bytes', async () => {
  const [left, right] = createMemoryPair({ carriesBytes: true });
  const events = RecordedEvents.of(right);
  left.send('first');
  left.sendBytes?.({ text: '{}', bytes: Buffer.from('abc') });
  const reused = Buffer.from('def');
  left.sendBytes?.({ text: '{}', bytes: reused }, () => reused.fill('x'));
  left.sendPart(Buffer.from([0, 0, 0, 2, 0x7b]), false, undefined, true);
  left.sendPart(Buffer.from('}ghi'), true, undefined, true);
  left.send('last');
  await events.untilMessages(2);
  expect(events.log).toEqual([
    'message first',
    'bytes {} abc',
    'bytes {} def',
    'bytes {} ghi',
    'message last',
  ]);
  expect(createMemoryPair()[0].sendBytes).toBeUndefined();
});
