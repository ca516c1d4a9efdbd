import { expect, test } from 'vitest';
import { FailureDelay } from '../../../src/listener/failure-delay.ts';
import { AUTH_FAILURE_MAX_ADDRESSES, AUTH_FAILURE_RESET_MS } from '../../../src/listener/limits.ts';

function delays() {
  const clock = { nowMs: 0 };
  return { clock, delay: new FailureDelay(() => clock.nowMs) };
}

test('resets the delay of an address after a time without failures', () => {
  const { clock, delay } = delays();
  const first = delay.failed('192.0.2.1');
  clock.nowMs += AUTH_FAILURE_RESET_MS;
  expect(delay.failed('192.0.2.1')).toBe(first * 2);
  clock.nowMs += AUTH_FAILURE_RESET_MS + 1;
  expect(delay.failed('192.0.2.1')).toBe(first);
});

test('counts an IPv6 /64 network as one address, and all local clients as one', () => {
  const { delay } = delays();
  const first = delay.failed('2001:db8::1');
  expect(delay.failed('2001:db8::ffff:2')).toBe(first * 2);
  expect(delay.failed('2001:db8:0:1::1')).toBe(first);
  expect(delay.failed('127.0.0.1')).toBe(first);
  expect(delay.failed('::1')).toBe(first * 2);
  expect(delay.failed(null)).toBe(first * 4);
});

test('keeps a bounded number of addresses and evicts the least recently failing one', () => {
  const { delay } = delays();
  const first = delay.failed('192.0.2.1');
  delay.failed('192.0.2.2');
  delay.failed('192.0.2.1');
  for (let count = 0; count < AUTH_FAILURE_MAX_ADDRESSES - 1; count++) {
    delay.failed(`10.${count >> 16}.${(count >> 8) & 255}.${count & 255}`);
  }
  expect(delay.failed('192.0.2.2')).toBe(first);
});
