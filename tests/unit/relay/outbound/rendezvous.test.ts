import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { openRendezvous } from '../../../../src/relay/outbound/rendezvous.ts';
import { waitFor } from '../../../support/wait-for.ts';

const FRAME = Buffer.from('a frame that could be read on the way');

/** A websocket server that records the raw bytes and the decoded frames. */
async function startServer() {
  const [raw, frames]: [Buffer[], Buffer[]] = [[], []];
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  server.on('connection', (socket) => socket.on('message', (data) => frames.push(data as Buffer)));
  await once(server, 'listening');
  const tap = createServer((socket) => {
    socket.on('data', (chunk) => raw.push(chunk));
    const far = socket
      .pipe(connect((server.address() as AddressInfo).port, '127.0.0.1'))
      .once('close', () => socket.destroy());
    far.pipe(socket).once('close', () => far.destroy());
  });
  tap.listen(0, '127.0.0.1');
  await once(tap, 'listening');
  onTestFinished(() => {
    for (const client of server.clients) client.terminate();
    server.close();
    tap.close();
  });
  return { port: (tap.address() as AddressInfo).port, wire: () => Buffer.concat(raw), frames };
}

test('masks frames, also on the loopback interface', async () => {
  const { port, wire, frames } = await startServer();
  const { signal } = new AbortController();
  const socket = await openRendezvous(
    `ws://127.0.0.1:${port}`,
    { text: 'refuse', env: {}, tls: undefined },
    signal,
  );
  onTestFinished(() => socket.drop());
  socket.open({ frame: () => {}, drained: () => {}, closed: () => {} });
  socket.send(FRAME);
  await waitFor('the frame', () => frames.length > 0);
  expect(frames[0]).toEqual(FRAME);
  expect(wire().includes(FRAME)).toBe(false);
});
