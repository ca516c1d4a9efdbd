import { once } from 'node:events';
import { connect } from 'node:net';
import { PassThrough } from 'node:stream';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { ClientError } from '../../../../src/client/errors.ts';
import { FORWARD_TIMEOUT_MS, MAX_TCP_STREAMS } from '../../../../src/client/limits.ts';
import { LocalListener, type LocalListenerOptions } from '../../../../src/client/tcp/local-listener.ts';
import { waitFor } from '../../../support/wait-for.ts';

/** A listener on a free port, with the errors that it has reported. */
async function listen(open: LocalListenerOptions['open']) {
  const errors: ClientError[] = [];
  const listener = await LocalListener.open({
    host: '127.0.0.1',
    port: 0,
    open,
    onError: (error) => errors.push(error),
  });
  onTestFinished(() => listener.close());
  return { listener, errors };
}

/** Opens a stream only after its signal has aborted, which is an error. */
function never(_socket: unknown, signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  });
}

test('a connection waits for its stream for a limited time, and is reset then', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  let waiting = 0;
  const { listener, errors } = await listen((socket, signal) => {
    waiting++;
    return never(socket, signal);
  });
  const socket = connect(listener.port, '127.0.0.1');
  await once(socket, 'connect');
  while (waiting === 0) await new Promise((resolve) => setImmediate(resolve));
  vi.advanceTimersByTime(FORWARD_TIMEOUT_MS - 1);
  expect(errors).toEqual([]);
  vi.advanceTimersByTime(1);
  const [error] = await once(socket, 'error');
  expect(error).toMatchObject({ code: 'ECONNRESET' });
  expect(errors).toMatchObject([{ kind: 'timeout', message: expect.stringContaining('cannot be reached') }]);
});

test('connections above the maximum are closed and reported', async () => {
  const { listener, errors } = await listen(never);
  const sockets = Array.from({ length: MAX_TCP_STREAMS + 1 }, () => connect(listener.port, '127.0.0.1'));
  onTestFinished(() => {
    for (const socket of sockets) socket.on('error', () => {}).destroy();
  });
  await waitFor('the error', () => errors.length === 1);
  expect(errors).toMatchObject([{ kind: 'overloaded' }]);
});

test('a listener that has stopped keeps its connections and frees its port', async () => {
  const { listener } = await listen(async () => new PassThrough());
  const { port } = listener;
  const socket = connect(port, '127.0.0.1');
  socket.write('one');
  expect(String((await once(socket, 'data'))[0])).toBe('one');
  expect(listener.openStreams).toBe(1);
  listener.stop();
  const refused = connect(port, '127.0.0.1');
  expect((await once(refused, 'error'))[0]).toMatchObject({ code: 'ECONNREFUSED' });
  socket.write('two');
  expect(String((await once(socket, 'data'))[0])).toBe('two');
  socket.end();
  await once(socket, 'close');
  await waitFor('the end of the stream', () => listener.openStreams === 0);
});

test('an open that has ended the connection itself is no error', async () => {
  const { listener, errors } = await listen(async (socket) => {
    socket.end('bye');
    return null;
  });
  const socket = connect(listener.port, '127.0.0.1');
  expect(String((await once(socket, 'data'))[0])).toBe('bye');
  await once(socket, 'close');
  expect(errors).toEqual([]);
});

test('a port that is taken is an error with the reason of the system', async () => {
  const { listener } = await listen(never);
  const again = LocalListener.open({
    host: '127.0.0.1',
    port: listener.port,
    open: never,
    onError: () => {},
  });
  await expect(again).rejects.toMatchObject({
    kind: 'conflict',
    message: expect.stringContaining(`cannot listen on 127.0.0.1:${listener.port}: the port is in use`),
    cause: { code: 'EADDRINUSE' },
  });
});
