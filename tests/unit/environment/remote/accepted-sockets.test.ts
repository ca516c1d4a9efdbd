import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { type AcceptedSocket, AcceptedSockets } from '../../../../src/environment/remote/accepted-sockets.ts';
import { createMemoryPair } from '../../../../src/transport/memory.ts';
import type { CloseReason, TransportEvents } from '../../../../src/transport/transport.ts';
import { FakeClient, refused } from '../fake-connector.ts';

/** Memory transports deliver in a later turn of the event loop. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await nextTurn();
}

const never = new AbortController().signal;

function recorder() {
  const messages: string[] = [];
  const closed: CloseReason[] = [];
  const events: TransportEvents = {
    message: (text) => messages.push(text),
    undecodable: () => {},
    drained: () => {},
    ended: () => {},
    closed: (reason) => closed.push(reason),
  };
  return { messages, closed, events };
}

it('the first socket is available immediately', async () => {
  const [near, far] = createMemoryPair();
  const sockets = new AcceptedSockets('it', near);
  const socket = await sockets.open(never);
  const [here, there] = [recorder(), recorder()];
  socket.open(here.events);
  far.open(there.events);
  socket.send('to there');
  far.send('to here');
  await settle();
  expect(here.messages).toEqual(['to here']);
  expect(there.messages).toEqual(['to there']);
  socket.close({ code: 1000, reason: 'enough' });
  await settle();
  expect(here.closed).toHaveLength(1);
});

it('open waits for the next socket', async () => {
  const sockets = new AcceptedSockets('it', createMemoryPair()[0]);
  const client = new FakeClient();
  await sockets.open(never);
  client.become('recovering');
  let opened = false;
  const opening = sockets.open(never).then(() => {
    opened = true;
  });
  await settle();
  expect(opened).toBe(false);
  sockets.replace(createMemoryPair()[0], client);
  await opening;
});

it('keeps a socket for the next call of open', async () => {
  const sockets = new AcceptedSockets('it', createMemoryPair()[0]);
  const client = new FakeClient();
  await sockets.open(never);
  const abort = new AbortController();
  const opening = sockets.open(abort.signal);
  const failed = expect(opening).rejects.toThrow('too long');
  abort.abort(new Error('too long'));
  await failed;
  client.become('recovering');
  sockets.replace(createMemoryPair()[0], client);
  await sockets.open(never);
});

it('replace closes the current socket immediately and ignores its later messages', async () => {
  const [near, far] = createMemoryPair();
  const sockets = new AcceptedSockets('it', near);
  const client = new FakeClient();
  const socket = await sockets.open(never);
  const here = recorder();
  socket.open(here.events);
  far.send('too late');
  sockets.replace(createMemoryPair()[0], client);
  expect(here.closed).toEqual([{ code: 1001, reason: 'it has a new connection' }]);
  await settle();
  expect(here.closed).toHaveLength(1);
  expect(here.messages).toEqual([]);
});

it('allows one replacement at a time', async () => {
  const sockets = new AcceptedSockets('it', createMemoryPair()[0]);
  const client = new FakeClient();
  await sockets.open(never);
  client.become('recovering');
  sockets.replace(createMemoryPair()[0], client);
  const again = () => sockets.replace(createMemoryPair()[0], client);
  expect(again).toThrow(
    'it cannot use another connection: another connection is being tried; try again later',
  );
  await sockets.open(never);
  expect(again).toThrow('another connection is being tried');
  client.become('connected');
  again();
});

it('allows another replacement after a failed one', async () => {
  const sockets = new AcceptedSockets('it', createMemoryPair()[0]);
  const client = new FakeClient();
  await sockets.open(never);
  client.become('recovering');
  sockets.replace(createMemoryPair()[0], client);
  await sockets.open(never);
  const next = sockets.open(never);
  sockets.replace(createMemoryPair()[0], client);
  await next;
});

it('replace closes the current socket, even one requested while its predecessor closed', async () => {
  const sockets = new AcceptedSockets('it', createMemoryPair()[0]);
  const client = new FakeClient();
  const first = await sockets.open(never);
  let second: Promise<AcceptedSocket> | null = null;
  const askedWithin = recorder();
  first.open({
    ...askedWithin.events,
    closed: () => {
      second = sockets.open(never);
    },
  });
  sockets.replace(createMemoryPair()[0], client);
  const heard = recorder();
  (await second!).open(heard.events);
  client.become('connected');
  sockets.replace(createMemoryPair()[0], client);
  expect(heard.closed).toHaveLength(1);
});

/** A socket that does not report its close by itself. */
class StubbornSocket implements AcceptedSocket {
  events: TransportEvents | null = null;

  open(events: TransportEvents): void {
    this.events = events;
  }

  send(): boolean {
    return true;
  }

  sendPart(): boolean {
    return true;
  }

  setReceiving(): void {}

  close(): void {}
}

it('passes the next socket when the last one is closed on both sides', async () => {
  const stubborn = new StubbornSocket();
  const sockets = new AcceptedSockets('it', stubborn);
  (await sockets.open(never)).open(recorder().events);
  sockets.replace(createMemoryPair()[0], new FakeClient());
  let handedOver = false;
  const next = sockets.open(never).then(() => {
    handedOver = true;
  });
  await settle();
  expect(handedOver).toBe(false);
  stubborn.events!.closed({ code: 1001, reason: '' });
  await next;
});

it('passes the next socket after the time limit when the last one never closes', async () => {
  const sockets = new AcceptedSockets('it', new StubbornSocket());
  (await sockets.open(never)).open(recorder().events);
  sockets.replace(createMemoryPair()[0], new FakeClient());
  await sockets.open(never);
});

it('rejects sockets before and after the session', () => {
  const sockets = new AcceptedSockets('it', createMemoryPair()[0]);
  const client = new FakeClient();
  expect(() => sockets.replace(createMemoryPair()[0], null)).toThrow('it has no session');
  client.become('failed', refused());
  expect(() => sockets.replace(createMemoryPair()[0], client)).toThrow('its session has ended');
  client.become('closed');
  expect(() => sockets.replace(createMemoryPair()[0], client)).toThrow('its session has ended');
});

it('closes a socket that the client does not use', async () => {
  const sockets = new AcceptedSockets('it', createMemoryPair()[0]);
  const client = new FakeClient();
  await sockets.open(never);
  client.become('recovering');
  const [near, far] = createMemoryPair();
  sockets.replace(near, client);
  const there = recorder();
  far.open(there.events);
  client.become('failed', refused());
  await settle();
  expect(there.closed).toHaveLength(1);
});
