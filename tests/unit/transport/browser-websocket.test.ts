import { afterEach, expect, test, vi } from 'vitest';
import { connectBrowserWebSocket } from '../../../src/transport/browser-websocket.ts';
import { CLOSE_TIMEOUT_MS } from '../../../src/transport/limits.ts';
import type { CloseReason } from '../../../src/transport/transport.ts';

/** A socket whose server a test plays. */
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

test('a server that does not answer a close is not waited for', async () => {
  const { transport, socket, closed } = await opened();
  transport.close({ code: 1002, reason: 'nonsense' });
  expect(socket.closes).toEqual([[4002, 'nonsense']]);
  vi.advanceTimersByTime(CLOSE_TIMEOUT_MS);
  expect(closed).toEqual([{ code: 1006, reason: 'nonsense' }]);
  socket.onclose?.({ code: 1000, reason: '' });
  expect(closed).toHaveLength(1);
});

test('a server that answers ends it at once, and nothing is left', async () => {
  const { transport, socket, closed } = await opened();
  transport.close({ code: 1000, reason: '' });
  socket.onclose?.({ code: 1000, reason: 'bye' });
  expect(closed).toEqual([{ code: 1000, reason: 'bye' }]);
  expect(vi.getTimerCount()).toBe(0);
});
