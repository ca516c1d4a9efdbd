import { expect, test } from 'vitest';
import type { ProcessEvent } from '../../../../src/client/backend.ts';
import { ClientError } from '../../../../src/client/errors.ts';
import { LOG_MAX_BYTES, LOG_MAX_EVENTS } from '../../../../src/client/limits.ts';
import { ProcessEventLog, type Refill } from '../../../../src/client/process/event-log.ts';

type Output = Extract<ProcessEvent, { type: 'output' }>;
const output = (seq: number, text = `<${seq}>`): Output => ({
  type: 'output',
  seq,
  stream: 'stdout',
  bytes: Buffer.from(text),
});
const exited = (seq: number): ProcessEvent => ({ type: 'exited', seq, exitCode: 0, sandboxDenied: false });
const closed = (seq: number): ProcessEvent => ({ type: 'closed', seq });
const lost = (fromSeq: number, toSeq: number, bytes: number): ProcessEvent => ({
  type: 'lost',
  fromSeq,
  toSeq,
  bytes,
  streamBytes: { stdout: bytes, stderr: 0, pty: 0 },
});
const nothing: Refill = () => Promise.resolve([]);

async function all(events: AsyncIterable<ProcessEvent>): Promise<ProcessEvent[]> {
  const list: ProcessEvent[] = [];
  for await (const event of events) list.push(event);
  return list;
}

test('a reader gets past events, then new ones, and ends after the last', async () => {
  const log = new ProcessEventLog(nothing);
  log.append(output(1));
  const reading = all(log.subscribe());
  await Promise.resolve();
  log.append(output(2));
  await Promise.resolve();
  log.append(exited(3));
  log.append(closed(4));
  const events = [output(1), output(2), exited(3), closed(4)];
  expect(await reading).toEqual(events);
  expect(await all(log.subscribe())).toEqual(events);
});

test('a failure is the last event', async () => {
  const log = new ProcessEventLog(nothing);
  const failed: ProcessEvent = { type: 'failed', error: new ClientError('disconnected', 'gone') };
  log.append(output(1));
  log.append(failed);
  expect(await all(log.subscribe())).toEqual([output(1), failed]);
});

test('readers have independent positions, and next may be called concurrently', async () => {
  const log = new ProcessEventLog(nothing);
  const [one, two] = [log.subscribe(), log.subscribe()];
  const steps = Promise.all([one.next(), one.next(), two.next()]);
  log.append(output(1));
  log.append(output(2));
  expect((await steps).map(({ value }) => value)).toEqual([output(1), output(2), output(1)]);
});

test('keeps a limited number of events and refills older ones for a late reader', async () => {
  const asked: [number, number][] = [];
  const log = new ProcessEventLog(async (afterSeq, throughSeq) => {
    asked.push([afterSeq, throughSeq]);
    return [output(2), output(3), output(4), output(6), output(7)];
  });
  log.append(output(1));
  const early = log.subscribe();
  expect((await early.next()).value).toEqual(output(1));
  for (let seq = 2; seq <= 4; seq++) log.append(output(seq));
  log.append(exited(5));
  for (let seq = 6; seq <= LOG_MAX_EVENTS + 5; seq++) log.append(output(seq));
  log.append(closed(LOG_MAX_EVENTS + 6));
  // Evicted: 1 to 6.
  const events = await all(early);
  expect(events.slice(0, 6)).toEqual([output(2), output(3), output(4), exited(5), output(6), output(7)]);
  expect(events).toHaveLength(LOG_MAX_EVENTS + 5);
  const late = await all(log.subscribe());
  expect(late.slice(0, 3)).toEqual([lost(1, 1, 3), output(2), output(3)]);
  expect(asked).toEqual([
    [1, 6],
    [0, 6],
  ]);
});

test('keeps a limited number of bytes, but always the last event', async () => {
  const log = new ProcessEventLog(nothing);
  const half = 'x'.repeat(LOG_MAX_BYTES / 2);
  for (let seq = 1; seq <= 3; seq++) log.append(output(seq, half));
  const reader = log.subscribe();
  expect((await reader.next()).value).toEqual(lost(1, 1, half.length));
  expect((await reader.next()).value).toMatchObject({ seq: 2 });
  log.append(output(4, half + half + half));
  expect((await reader.next()).value).toEqual(lost(3, 3, half.length));
  expect((await reader.next()).value).toMatchObject({ seq: 4 });
});

test('events that cannot be refilled are lost, also when the refill fails', async () => {
  const log = new ProcessEventLog(() => Promise.reject(new Error('gone')));
  for (let seq = 1; seq <= LOG_MAX_EVENTS + 10; seq++) log.append(output(seq));
  const reader = log.subscribe();
  expect((await reader.next()).value).toEqual(lost(1, 10, 9 * 3 + 4));
  expect((await reader.next()).value).toEqual(output(11));
});

test('a reader that falls behind again during a refill refills again', async () => {
  let grown = false;
  const log: ProcessEventLog = new ProcessEventLog(async (afterSeq, throughSeq) => {
    if (!grown) {
      grown = true;
      for (let seq = LOG_MAX_EVENTS + 3; seq <= LOG_MAX_EVENTS + 12; seq++) log.append(output(seq));
    }
    return Array.from({ length: throughSeq - afterSeq }, (_, index) => output(afterSeq + 1 + index));
  });
  for (let seq = 1; seq <= LOG_MAX_EVENTS + 2; seq++) log.append(output(seq));
  const reader = log.subscribe();
  for (let seq = 1; seq <= LOG_MAX_EVENTS + 12; seq++) {
    expect((await reader.next()).value).toMatchObject({ type: 'output', seq });
  }
});

test('return ends a waiting step', async () => {
  const log = new ProcessEventLog(nothing);
  const reader = log.subscribe();
  const step = reader.next();
  await Promise.resolve();
  await reader.return?.();
  expect(await step).toEqual({ done: true, value: undefined });
  expect(await reader.next()).toEqual({ done: true, value: undefined });
});

test('abort rejects the waiting step, and later steps are done', async () => {
  const log = new ProcessEventLog(nothing);
  const controller = new AbortController();
  const reader = log.subscribe({ signal: controller.signal });
  const step = reader.next();
  setImmediate(() => controller.abort());
  await expect(step).rejects.toMatchObject({ kind: 'aborted' });
  expect(await reader.next()).toEqual({ done: true, value: undefined });
});

test('return and abort end a step that waits for a refill', async () => {
  const log = new ProcessEventLog(() => new Promise(() => {}));
  for (let seq = 1; seq <= LOG_MAX_EVENTS + 1; seq++) log.append(output(seq));
  const controller = new AbortController();
  const [aborted, left] = [log.subscribe({ signal: controller.signal }), log.subscribe()];
  const steps = Promise.allSettled([aborted.next(), left.next()]);
  setImmediate(() => {
    controller.abort();
    void left.return?.();
  });
  expect(await steps).toMatchObject([
    { status: 'rejected', reason: { kind: 'aborted' } },
    { status: 'fulfilled', value: { done: true } },
  ]);
});
