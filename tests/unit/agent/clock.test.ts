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
  block(20);
  await expired;
  if (order.length < 2) await once(port1, 'message');
  expect(order).toEqual(['event', 'limit']);
});

test('a time limit can be cancelled after its time, until its callback runs', async () => {
  let expired = false;
  const cancel = SYSTEM_CLOCK.after(1, () => {
    expired = true;
  });
  const cancelled = new Promise<void>((resolve) => {
    setTimeout(() => {
      cancel();
      setImmediate(resolve);
    }, 1);
  });
  // Both timers are due when the event loop continues, so they fire in one turn.
  block(20);
  await cancelled;
  expect(expired).toBe(false);
});

function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}
