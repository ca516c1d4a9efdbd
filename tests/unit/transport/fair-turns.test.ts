import { expect, test } from 'vitest';
import { FairTurns } from '../../../src/transport/fair-turns.ts';
import { TURNS_SLICE_MS } from '../../../src/transport/limits.ts';

/** Resolves in the next turn of the event loop, after the slice of that turn. */
const nextSlice = () => new Promise((resolve) => setImmediate(resolve));

test('runs each turn once, in the order of their arrival', async () => {
  const turns = new FairTurns(() => 0);
  const log: string[] = [];
  for (const name of ['a', 'b', 'c']) turns.add(() => log.push(name));
  expect(log).toEqual([]);
  await nextSlice();
  expect(log).toEqual(['a', 'b', 'c']);
  await nextSlice();
  expect(log).toEqual(['a', 'b', 'c']);
});

test('lets the event loop go round between two turns of the same connection', async () => {
  const turns = new FairTurns(() => 0);
  let count = 0;
  const turn = () => {
    count++;
    turns.add(turn);
  };
  turns.add(turn);
  for (let round = 1; round <= 5; round++) {
    await nextSlice();
    expect(count).toBe(round);
  }
  turns.remove(turn);
  await nextSlice();
  expect(count).toBe(5);
});

test('ends a slice when its time is over, and continues with the connections that wait longest', async () => {
  let nowMs = 0;
  const turns = new FairTurns(() => nowMs);
  const log: string[] = [];
  const busy = (name: string) => {
    const turn = () => {
      log.push(name);
      nowMs += TURNS_SLICE_MS / 2;
      turns.add(turn);
    };
    return turn;
  };
  for (const name of ['a', 'b', 'c']) turns.add(busy(name));
  for (let slice = 0; slice < 3; slice++) await nextSlice();
  expect(log).toEqual(['a', 'b', 'c', 'a', 'b', 'c']);
});

test('takes turns between groups, however many connections a group has', async () => {
  const turns = new FairTurns(() => 0);
  const log: string[] = [];
  const busy = (name: string, group: string) => {
    const turn = () => {
      log.push(name);
      turns.add(turn, group);
    };
    turns.add(turn, group);
  };
  for (const name of ['a1', 'a2', 'a3']) busy(name, 'a');
  busy('b1', 'b');
  for (let slice = 0; slice < 3; slice++) await nextSlice();
  expect(log).toEqual(['a1', 'b1', 'a2', 'b1', 'a3', 'b1']);
});

test('drops a turn that was removed, also during a slice', async () => {
  const turns = new FairTurns(() => 0);
  const log: string[] = [];
  const second = () => log.push('second');
  turns.add(() => {
    log.push('first');
    turns.remove(second);
  });
  turns.add(second);
  await nextSlice();
  await nextSlice();
  expect(log).toEqual(['first']);
});
