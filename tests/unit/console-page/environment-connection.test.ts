import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { EnvironmentConnection } from '../../../console/src/connection/environment-connection.ts';

/** When the page has asked for a ticket, in milliseconds since the start. */
let asked: number[];
let answer: () => Promise<Response>;
const offline = () => Promise.reject(new TypeError('Failed to fetch'));

beforeEach(() => {
  vi.useFakeTimers();
  const startMs = Date.now();
  asked = [];
  answer = offline;
  vi.stubGlobal('addEventListener', () => {});
  vi.stubGlobal('removeEventListener', () => {});
  vi.stubGlobal('localStorage', { getItem: () => 'a value' });
  vi.stubGlobal('location', new URL('http://127.0.0.1/console/'));
  vi.stubGlobal('fetch', () => {
    asked.push(Date.now() - startMs);
    return answer();
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const refusal = (status: number, error: string) => async () =>
  Response.json({ error, message: `it is ${error}` }, { status });
const pauses = () => asked.slice(1).map((ms, index) => ms - asked[index]!);

test('tries again at growing intervals while the server does not answer', async () => {
  const connection = new EnvironmentConnection('server');
  await vi.advanceTimersByTimeAsync(61_000);
  expect(pauses()).toEqual([500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000]);
  expect(connection.status.value).toMatchObject({
    kind: 'offline',
    why: 'The server does not answer (Failed to fetch).',
  });
  connection.close();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked).toHaveLength(9);
});

test('tries immediately when the user asks for it, and once', async () => {
  const connection = new EnvironmentConnection('server');
  await vi.advanceTimersByTimeAsync(8000);
  expect(asked).toEqual([0, 500, 1500, 3500, 7500]);
  connection.retry();
  connection.retry();
  await vi.advanceTimersByTimeAsync(0);
  expect(asked).toEqual([0, 500, 1500, 3500, 7500, 8000]);
  connection.close();
});

test.each(['signedOut', 'expired', 'kicked'] as const)(
  'does not try again when the session is over: %s',
  async (code) => {
    answer = refusal(401, code);
    const connection = new EnvironmentConnection('server');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toEqual([0]);
    expect(connection.status.value).toEqual({ kind: 'over', code, message: `It is ${code}.` });
    connection.close();
  },
);

test('tries again when the environment cannot be reached', async () => {
  answer = refusal(502, 'unreachable');
  const connection = new EnvironmentConnection('server');
  await vi.advanceTimersByTimeAsync(1500);
  expect(pauses()).toEqual([500, 1000]);
  expect(connection.status.value).toMatchObject({ kind: 'offline', why: 'It is unreachable.' });
  connection.close();
});
