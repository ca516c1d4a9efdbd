import { expect, onTestFinished, test, vi } from 'vitest';
import { forwardStream } from '../../../../src/relay/forward/forward-stream.ts';
import { FrameSocket } from '../../../../src/transport/frame-socket.ts';
import { SEND_WINDOW_BYTES } from '../../../../src/transport/limits.ts';
import { createMemoryPair } from '../../../../src/transport/memory.ts';
import { CloseCode } from '../../../../src/transport/transport.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { RecordedEvents } from '../../transport/recorded-events.ts';
import { FakeRegistry } from '../fake-registry.ts';

/** Forwards a stream to a server that records the messages it receives. */
async function forward() {
  const server = await FakeRegistry.open();
  const received: Buffer[] = [];
  let ended = false;
  let socket: FrameSocket | null = null;
  server.accepted = (accepted) => {
    socket = accepted;
    accepted.open({
      frame: (bytes) => received.push(Buffer.from(bytes)),
      drained: () => {},
      closed: () => {
        ended = true;
      },
    });
  };
  const [harness, stream] = createMemoryPair();
  const forwarding = forwardStream(stream, { url: server.url.replace('http', 'ws') });
  onTestFinished(() => harness.close({ code: CloseCode.normal, reason: '' }));
  const events = RecordedEvents.of(harness);
  await waitFor('the connection', () => socket !== null);
  return { harness, events, forwarding, received, socket: socket!, ended: () => ended };
}

test('forwards each message unread', async () => {
  const { harness, events, received, socket } = await forward();
  harness.send('no JSON at all');
  harness.send('{}');
  await waitFor('the messages', () => received.length === 2);
  expect(received.map(String)).toEqual(['no JSON at all', '{}']);
  (socket as FrameSocket).send(Buffer.from('back'));
  await events.untilMessages(1);
  expect(events.messages).toEqual(['back']);
});

test('closes the stream after the last message of the server', async () => {
  const { events, socket, forwarding } = await forward();
  (socket as FrameSocket).send(Buffer.from('last'));
  (socket as FrameSocket).close();
  await events.untilClosed();
  expect(events.messages).toEqual(['last']);
  await forwarding;
});

test('closes the connection with the stream', async () => {
  const { harness, forwarding, ended } = await forward();
  harness.close({ code: CloseCode.normal, reason: '' });
  await forwarding;
  await waitFor('the end', ended);
});

test('closes the connection after the last message of the harness', async () => {
  const { harness, forwarding, received, socket } = await forward();
  const sent = vi.spyOn(FrameSocket.prototype, 'send');
  onTestFinished(() => sent.mockRestore());
  socket.setReceiving(false);
  for (let block = 0; block < BLOCKS; block++) harness.send(BLOCK);
  const pending = () => (sent.mock.contexts[0] as FrameSocket | undefined)?.pendingBytes ?? 0;
  await waitFor('bytes that the server does not take', () => pending() > SEND_WINDOW_BYTES / 2);
  harness.break();
  const passed = sent.mock.calls.length;
  socket.setReceiving(true);
  await forwarding;
  expect(passed).toBeLessThan(BLOCKS);
  await waitFor('what was passed on', () => received.length === passed);
});

test('closes the stream when it cannot connect to the server', async () => {
  const server = await FakeRegistry.open();
  server.refusals.push(503);
  const [harness, stream] = createMemoryPair();
  const events = RecordedEvents.of(harness);
  await expect(forwardStream(stream, { url: server.url.replace('http', 'ws') })).rejects.toThrow('HTTP 503');
  expect(await events.untilClosed()).toMatchObject({ code: CloseCode.tryAgainLater });
});

const BLOCKS = 128;
const BLOCK = 'x'.repeat(256 * 1024);

test('pauses the server while the harness does not read', async () => {
  const { harness, events, socket, received } = await forward();
  harness.peer.setCongested(true);
  for (let block = 0; block < BLOCKS; block++) (socket as FrameSocket).send(Buffer.from(BLOCK));
  await events.untilMessages(1);
  for (let turn = 1; turn <= 50; turn++) {
    harness.send('turn');
    await waitFor('the other direction', () => received.length === turn);
  }
  expect(events.messages.length).toBeLessThan(BLOCKS);
  harness.peer.setCongested(false);
  await events.untilMessages(BLOCKS);
});

test('pauses the harness while the server does not read', async () => {
  const { harness, socket, received } = await forward();
  const receiving = vi.spyOn(harness.peer, 'setReceiving');
  (socket as FrameSocket).setReceiving(false);
  for (let block = 0; block < BLOCKS; block++) harness.send(BLOCK);
  await waitFor('the pause', () => receiving.mock.calls.length > 0);
  expect(receiving).toHaveBeenLastCalledWith(false);
  (socket as FrameSocket).setReceiving(true);
  await waitFor('all of it', () => received.length === BLOCKS);
  expect(receiving).toHaveBeenLastCalledWith(true);
});
