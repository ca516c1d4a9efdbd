import { expect, test } from 'vitest';
import { FailureDelay } from '../../../../src/server/auth/failure-delay.ts';
import { AUTH_FAILURE_FORGOTTEN_MS, AUTH_FAILURES_REMEMBERED } from '../../../../src/server/limits.ts';

function delays() {
  const clock = { nowMs: 0 };
  return { clock, delay: new FailureDelay(() => clock.nowMs) };
}

test('an address begins anew after a while without a failure', () => {
  const { clock, delay } = delays();
  const first = delay.failed('192.0.2.1');
  clock.nowMs += AUTH_FAILURE_FORGOTTEN_MS;
  expect(delay.failed('192.0.2.1')).toBe(first * 2);
  clock.nowMs += AUTH_FAILURE_FORGOTTEN_MS + 1;
  expect(delay.failed('192.0.2.1')).toBe(first);
});

test('a network of IPv6 counts as one address, and so does this machine', () => {
  const { delay } = delays();
  const first = delay.failed('2001:db8::1');
  expect(delay.failed('2001:db8::ffff:2')).toBe(first * 2);
  expect(delay.failed('2001:db8:0:1::1')).toBe(first);
  expect(delay.failed('127.0.0.1')).toBe(first);
  expect(delay.failed('::1')).toBe(first * 2);
  expect(delay.failed(null)).toBe(first * 4);
});

test('the memory is bounded, and the quietest address is forgotten first', () => {
  const { delay } = delays();
  const first = delay.failed('192.0.2.1');
  delay.failed('192.0.2.2');
  delay.failed('192.0.2.1');
  for (let count = 0; count < AUTH_FAILURES_REMEMBERED - 1; count++) {
    delay.failed(`10.${count >> 16}.${(count >> 8) & 255}.${count & 255}`);
  }
  expect(delay.failed('192.0.2.2')).toBe(first);
});
