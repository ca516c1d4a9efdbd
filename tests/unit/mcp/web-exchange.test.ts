import type { ServerResponse } from 'node:http';
import { Writable } from 'node:stream';
import { afterEach, expect, test, vi } from 'vitest';
import { sendWebResponse } from '../../../src/mcp/http/web-exchange.ts';
import { STALLED_RESPONSE_MS } from '../../../src/mcp/limits.ts';

afterEach(() => {
  vi.useRealTimers();
});

test('a client that reads nothing of its response for a time is disconnected', async () => {
  vi.useFakeTimers();
  // It takes one chunk and never asks for more.
  const output = Object.assign(new Writable({ highWaterMark: 1, write: () => {} }), {
    writeHead: () => output,
    flushHeaders: () => {},
  });
  const sending = sendWebResponse(new Response('x'.repeat(1000)), output as unknown as ServerResponse);
  await vi.advanceTimersByTimeAsync(STALLED_RESPONSE_MS - 1);
  expect(output.destroyed).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(output.destroyed).toBe(true);
  await sending;
  expect(vi.getTimerCount()).toBe(0);
});
