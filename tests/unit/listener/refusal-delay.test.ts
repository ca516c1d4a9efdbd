import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { closeWithClient, refusalDelay } from '../../../src/listener/refusal-delay.ts';

test('lasts until its time is over, and leaves nothing behind', async () => {
  const socket = new PassThrough();
  await refusalDelay(socket, 1);
  expect(socket.listenerCount('close')).toBe(0);
});

test('ends with the connection', async () => {
  const socket = new PassThrough();
  const delayed = refusalDelay(socket, 600_000);
  socket.destroy();
  await delayed;
  await refusalDelay(socket, 600_000);
});

test.each([
  ['ends', (socket: PassThrough) => socket.end()],
  ['sends more', (socket: PassThrough) => socket.write('x')],
])('ends when the client of a paused connection %s', async (_, act) => {
  const socket = new PassThrough();
  socket.pause();
  const delayed = refusalDelay(socket, 600_000);
  closeWithClient(socket);
  act(socket);
  await delayed;
  expect(socket.destroyed).toBe(true);
});
