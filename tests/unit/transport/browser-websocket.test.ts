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
  onmessage: ((event: { readonly data: unknown }) => void) | null = null;
  readonly closes: unknown[] = [];
  readonly sent: (string | Uint8Array)[] = [];

  constructor() {
    FakeSocket.last = this;
    queueMicrotask(() => this.onopen?.());
  }

  send(data: string | Uint8Array): void {
    this.sent.push(data);
  }

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
  const received: string[] = [];
  transport.open({
    message: (text) => received.push(text),
    bytesMessage: ({ text, bytes }) => received.push(`bytes ${text} ${Buffer.from(bytes)}`),
    undecodable: (reason) => received.push(`undecodable ${reason}`),
    drained: () => {},
    ended: () => {},
    closed: (reason) => closed.push(reason),
  });
  return { transport, socket: FakeSocket.last, closed, received };
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

test('sends and receives binary messages, after both ends have agreed', async () => {
  const { transport, socket, received } = await opened();
  transport.sendBytes?.({ text: '{}', bytes: Uint8Array.of(1, 2) });
  transport.sendPart(Uint8Array.of(0, 0, 0, 1), false, undefined, true);
  transport.sendPart(Uint8Array.of(0x7b, 3), true, undefined, true);
  expect(socket.sent).toEqual([
    Uint8Array.of(0, 0, 0, 2, 0x7b, 0x7d, 1, 2),
    Uint8Array.of(0, 0, 0, 1, 0x7b, 3),
  ]);
  const receive = (...bytes: number[]) => socket.onmessage?.({ data: Uint8Array.from(bytes).buffer });
  receive(0, 0, 0, 2, 0x7b, 0x7d, 0x61);
  transport.acceptBytes?.();
  receive(0, 0, 0, 2, 0x7b, 0x7d, 0x61);
  receive(0, 0, 0, 9, 0x7b);
  receive(0x7b, 0x7d);
  expect(received.slice(1)).toEqual([
    'bytes {} a',
    'undecodable a binary message ends before its JSON does',
    '{}',
  ]);
  expect(received[0]).not.toContain('bytes');
  receive(...new Uint8Array(101));
  expect(socket.closes).toEqual([[4009, 'a message is too large']]);
});
