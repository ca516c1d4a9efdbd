import { describe, expect, test } from 'vitest';
import type { ProcessEvent } from '../../../../src/client/backend.ts';
import {
  LOG_MAX_BYTES,
  PROCESS_WINDOW_BYTES,
  REPORTS_PER_WINDOW,
  UNREAD_WINDOWS,
} from '../../../../src/client/limits.ts';
import { ProcessEventLog } from '../../../../src/client/process/event-log.ts';
import { OUTPUT_EVENT_OVERHEAD_BYTES } from '../../../../src/protocol/limits.ts';

/** The output after which a reader reports. */
const PART_BYTES = PROCESS_WINDOW_BYTES / REPORTS_PER_WINDOW;
const PART = 'x'.repeat(PART_BYTES - OUTPUT_EVENT_OVERHEAD_BYTES);
const output = (seq: number, text = PART): ProcessEvent => ({
  type: 'output',
  seq,
  stream: 'stdout',
  bytes: Buffer.from(text),
});
const lost = (fromSeq: number, toSeq: number): ProcessEvent => ({
  type: 'lost',
  fromSeq,
  toSeq,
  bytes: null,
  streamBytes: null,
});

function logWithWindow(windowBytes = PROCESS_WINDOW_BYTES) {
  const consumed: number[] = [];
  const window = { windowBytes, consumed: (seq: number) => void consumed.push(seq) };
  const nothing = () => Promise.resolve([]);
  const log = new ProcessEventLog(nothing, { afterSeq: 0, screen: null }, () => () => {}, window);
  const append = (...events: ProcessEvent[]) => {
    for (const event of events) log.append(event);
  };
  return { log, append, consumed };
}

/** Reads this many events. */
async function take(reader: AsyncIterator<ProcessEvent>, count: number): Promise<ProcessEvent[]> {
  const events: ProcessEvent[] = [];
  for (let index = 0; index < count; index++) events.push((await reader.next()).value);
  return events;
}

describe('without a reader', () => {
  test('everything is used when it arrives', () => {
    const { append, consumed } = logWithWindow();
    append(output(1), output(2, 'small'), output(3));
    expect(consumed).toEqual([1, 3]);
  });

  test('a reader that has not begun does not count', async () => {
    const { log, append, consumed } = logWithWindow();
    const reader = log.subscribe();
    append(output(1), output(2));
    expect(consumed).toEqual([1, 2]);
    await take(reader, 1);
  });
});

describe('with readers', () => {
  test('a part of the window is reported when the reader has it', async () => {
    const { log, append, consumed } = logWithWindow();
    const reader = log.subscribe();
    const first = reader.next();
    append(output(1, 'a'), output(2), output(3));
    await first;
    expect(consumed).toEqual([]);
    await take(reader, 1);
    expect(consumed).toEqual([2]);
    await take(reader, 1);
    expect(consumed).toEqual([2, 3]);
  });

  test('tiny events are reported although they have few bytes', async () => {
    const { log, append, consumed } = logWithWindow();
    const count = PART_BYTES / OUTPUT_EVENT_OVERHEAD_BYTES;
    const reader = log.subscribe();
    const first = reader.next();
    for (let seq = 1; seq <= count; seq++) append(output(seq, 'x'));
    await first;
    await take(reader, count - 1);
    expect(consumed).toHaveLength(1);
  });

  test('a smaller window is reported in its parts', async () => {
    const { append, consumed } = logWithWindow(REPORTS_PER_WINDOW * (1 + OUTPUT_EVENT_OVERHEAD_BYTES));
    append(output(1, 'x'), output(2, 'x'));
    expect(consumed).toEqual([1, 2]);
  });

  test('the slowest one decides', async () => {
    const { log, append, consumed } = logWithWindow();
    const [fast, slow] = [log.subscribe(), log.subscribe()];
    const begun = Promise.all([fast.next(), slow.next()]);
    append(output(1, 'a'), output(2), output(3));
    await begun;
    await take(fast, 2);
    expect(consumed).toEqual([]);
    await take(slow, 1);
    expect(consumed).toEqual([2]);
    await slow.return?.();
    expect(consumed).toEqual([2, 3]);
  });

  test('one that ends its loop no longer counts', async () => {
    const { log, append, consumed } = logWithWindow();
    append(output(1, 'a'), output(2));
    for await (const event of log.subscribe()) {
      expect(event).toMatchObject({ seq: 1 });
      break;
    }
    append(output(3));
    expect(consumed).toEqual([2, 3]);
  });

  test('one whose signal aborts between two steps no longer counts', async () => {
    const { log, append, consumed } = logWithWindow();
    const controller = new AbortController();
    const reader = log.subscribe({ signal: controller.signal });
    append(output(1, 'a'));
    await take(reader, 1);
    append(output(2));
    expect(consumed).toEqual([]);
    controller.abort();
    expect(consumed).toEqual([2]);
    await expect(reader.next()).rejects.toMatchObject({ kind: 'aborted' });
  });

  test('lost output is reported immediately, because its size may be unknown', async () => {
    const { log, append, consumed } = logWithWindow();
    const reader = log.subscribe();
    append(output(1, 'a'));
    await take(reader, 1);
    append(lost(2, 9), output(10, 'b'));
    await take(reader, 1);
    expect(consumed).toEqual([9]);
  });
});

describe('what a reader has not read', () => {
  test('is kept beyond the usual size of the log', async () => {
    const { log, append } = logWithWindow();
    const reader = log.subscribe();
    append(output(1, 'a'));
    await take(reader, 1);
    const count = Math.ceil((3 * LOG_MAX_BYTES) / PART.length);
    for (let seq = 2; seq <= count; seq++) append(output(seq));
    expect(await take(reader, count - 1)).toMatchObject(
      Array.from({ length: count - 1 }, (_, index) => ({ type: 'output', seq: index + 2 })),
    );
  });

  test('is kept up to a limit', async () => {
    const { log, append } = logWithWindow();
    const reader = log.subscribe();
    append(output(1, 'a'));
    await take(reader, 1);
    const count = REPORTS_PER_WINDOW * UNREAD_WINDOWS + 4;
    for (let seq = 2; seq <= count; seq++) append(output(seq));
    expect(await take(reader, 2)).toMatchObject([{ type: 'lost', fromSeq: 2 }, { type: 'output' }]);
  });

  test('is kept for a reader that begins late, while it gets what is older', async () => {
    const { log, append } = logWithWindow();
    const count = 2 * REPORTS_PER_WINDOW * UNREAD_WINDOWS;
    for (let seq = 1; seq <= count; seq++) append(output(seq));
    const reader = log.subscribe();
    const first = reader.next();
    append(output(count + 1), output(count + 2));
    expect((await first).value).toMatchObject({ type: 'lost', fromSeq: 1, toSeq: count - 1 });
    expect(await take(reader, 3)).toMatchObject([{ seq: count }, { seq: count + 1 }, { seq: count + 2 }]);
  });

  test('is still read after the end', async () => {
    const { log, append } = logWithWindow();
    const reader = log.subscribe();
    append(output(1, 'a'));
    await take(reader, 1);
    append(output(2), output(3), output(4), { type: 'closed', seq: 5 });
    expect(await take(reader, 4)).toMatchObject([{ seq: 2 }, { seq: 3 }, { seq: 4 }, { type: 'closed' }]);
    expect(await reader.next()).toEqual({ done: true, value: undefined });
  });
});
