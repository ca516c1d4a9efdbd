import { afterEach, expect, test, vi } from 'vitest';
import { connectBrowserWebSocket } from '../../../src/transport/browser-websocket.ts';
import { CLOSE_TIMEOUT_MS } from '../../../src/transport/limits.ts';
import type { CloseReason } from '../../../src/transport/transport.ts';

/** A socket whose server a test controls. */
class FakeSocket {
  static last: FakeSocket;
  readyState = 1;
  binaryType = '';
  onopen: (() => void) | null = null;
  onclose: ((event: CloseReason) => void) | null = null;
  readonly closes: unknown[] = [];

  constructor() {
    FakeSocket.last = this;
    queueMicrotask(() => this.onopen?.());
  }

  send(): void {}

  close(code: number, reason: string): void {
    this.closes.push([code, reason]);
  }
}

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

async function opened() {
  vi.stubGlobal('WebSocket', FakeSocket);
  vi.useFakeTimers();
  const transport = await connectBrowserWebSocket('ws://x', { maxMessageBytes: 100 });
  const closed: CloseReason[] = [];
  transport.open({
    message: () => {},
    undecodable: () => {},
    drained: () => {},
    ended: () => {},
    closed: (reason) => closed.push(reason),
  });
  return { transport, socket: FakeSocket.last, closed };
}

test('does not wait for a server that does not answer a close', async () => {
  const { transport, socket, closed } = await opened();
  transport.close({ code: 1002, reason: 'invalid message' });
  expect(socket.closes).toEqual([[4002, 'invalid message']]);
  vi.advanceTimersByTime(CLOSE_TIMEOUT_MS);
  expect(closed).toEqual([{ code: 1006, reason: 'invalid message' }]);
  socket.onclose?.({ code: 1000, reason: '' });
  expect(closed).toHaveLength(1);
});

test('ends immediately when the server answers, and leaves no timer', async () => {
  const { transport, socket, closed } = await opened();
  transport.close({ code: 1000, reason: '' });
  socket.onclose?.({ code: 1000, reason: 'bye' });
  expect(closed).toEqual([{ code: 1000, reason: 'bye' }]);
  expect(vi.getTimerCount()).toBe(0);
});
