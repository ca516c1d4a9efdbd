import { once } from 'node:events';
import { MessageChannel } from 'node:worker_threads';
import { expect, onTestFinished, test } from 'vitest';
import { SYSTEM_CLOCK } from '../../../src/agent/clock.ts';

test('events that became ready while the event loop was blocked come before an expired time limit', async () => {
  const { port1, port2 } = new MessageChannel();
  onTestFinished(() => port1.close());
  const order: string[] = [];
  port1.on('message', () => order.push('event'));
  const expired = new Promise<void>((resolve) => {
    SYSTEM_CLOCK.after(1, () => {
      order.push('limit');
      resolve();
    });
  });
  port2.postMessage('ready');
  const until = performance.now() + 20;
  while (performance.now() < until);
  await expired;
  if (order.length < 2) await once(port1, 'message');
  expect(order).toEqual(['event', 'limit']);
});

test('a cancelled time limit does not expire, even after its time', async () => {
  let expired = false;
  const cancel = SYSTEM_CLOCK.after(1, () => {
    expired = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 1));
  cancel();
  await new Promise((resolve) => setImmediate(resolve));
  expect(expired).toBe(false);
});
