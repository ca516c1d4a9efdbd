import { expect, test } from 'vitest';
import { Slots } from '../../../src/files/slots.ts';

test('places go to those who wait, in order; who leaves is passed over', async () => {
  const slots = new Slots(1);
  const never = new AbortController();
  const leaves = new AbortController();
  const order: string[] = [];
  await slots.take(never.signal);
  const first = slots.take(leaves.signal).catch((reason) => order.push(`left: ${reason}`));
  const second = slots.take(never.signal).then(() => order.push('second'));
  const third = slots.take(never.signal).then(() => order.push('third'));
  leaves.abort('tired');
  await first;
  slots.release();
  await second;
  expect(order).toEqual(['left: tired', 'second']);
  slots.release();
  await third;
  slots.release();
  await slots.take(never.signal);
});

test('who comes with an aborted signal takes no place', async () => {
  const slots = new Slots(1);
  await expect(slots.take(AbortSignal.abort('gone'))).rejects.toBe('gone');
  await slots.take(new AbortController().signal);
});

test('nobody gets a place while they are held; then as many as there are, in order', async () => {
  const slots = new Slots(2);
  const { signal } = new AbortController();
  const order: string[] = [];
  await slots.take(signal);
  slots.setHeld(true);
  for (const name of ['first', 'second', 'third']) void slots.take(signal).then(() => order.push(name));
  slots.release();
  await new Promise(setImmediate);
  expect(order).toEqual([]);
  slots.setHeld(false);
  await new Promise(setImmediate);
  expect(order).toEqual(['first', 'second']);
});
