import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import {
  ConnectionSlots,
  countedAddress,
  descriptorLimit,
  type Peer,
} from '../../../src/listener/connection-slots.ts';

const LIMITS = { maxConnections: 3, maxConnectionsPerAddress: 2, maxSockets: 4 };

let nextPort = 1;
function peer(remoteAddress?: string): Peer {
  return Object.assign(new PassThrough(), remoteAddress && { remoteAddress, remotePort: nextPort++ });
}

async function close(socket: Peer): Promise<void> {
  socket.destroy();
  await new Promise(setImmediate);
}

test.each([
  ['192.0.2.7', '192.0.2.7'],
  ['::ffff:192.0.2.7', '192.0.2.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::9', '2001:db8:1:2::/64'],
  ['2001:db8::9', '2001:db8:0:0::/64'],
  ['::9', '0:0:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['127.0.0.1', null],
  ['::1', null],
  ['::ffff:127.0.0.1', null],
  [undefined, null],
])('counts %s as %s', (remoteAddress, counted) => {
  expect(countedAddress({ remoteAddress })).toBe(counted);
});

test('names the limit that is reached and frees a slot when a connection closes', async () => {
  const slots = new ConnectionSlots(LIMITS);
  const near = [peer('192.0.2.1'), peer('192.0.2.1')];
  for (const socket of near) slots.admit(socket);
  expect(slots.limitReached(peer('192.0.2.1'))).toContain('maxConnectionsPerAddress');
  expect(slots.limitReached(peer('192.0.2.2'))).toBeNull();
  const local = peer();
  slots.admit(local);
  expect(slots.limitReached(peer('192.0.2.2'))).toContain('(maxConnections)');
  expect([...slots.admitted]).toHaveLength(3);
  await close(near[0]!);
  expect(slots.limitReached(peer('192.0.2.1'))).toBeNull();
  expect([...slots.admitted]).toHaveLength(2);
});

test.each(['192.0.2.1', undefined])(
  'evicts the oldest pending connection from %s when all slots are taken',
  async (from) => {
    const slots = new ConnectionSlots(LIMITS);
    slots.admit(peer());
    slots.admit(peer());
    const [first, second, third, fourth] = [peer(from), peer(from), peer(from), peer(from)];
    expect(slots.addPending(first)).toBeNull();
    expect(slots.addPending(second)).toBeNull();
    expect(slots.addPending(third)).toBe(first);
    await close(second);
    expect(slots.addPending(fourth)).toBeNull();
    expect([...slots.pending]).toEqual([third, fourth]);
  },
);

test('frees the pending slot of the raw socket when its TLS connection is admitted', () => {
  const slots = new ConnectionSlots(LIMITS);
  const raw = peer('192.0.2.1');
  slots.addPending(raw);
  slots.admit(
    Object.assign(new PassThrough(), { remoteAddress: raw.remoteAddress, remotePort: raw.remotePort }),
  );
  expect([...slots.pending]).toEqual([]);
});

test('counts two connections from one remote port to two local addresses', () => {
  const slots = new ConnectionSlots(LIMITS);
  const from = { remoteAddress: '192.0.2.1', remotePort: 7 };
  for (const localAddress of ['198.51.100.1', '198.51.100.2']) {
    slots.addPending(Object.assign(new PassThrough(), from, { localAddress }));
  }
  expect([...slots.pending]).toHaveLength(2);
});

test('reads the descriptor limit of this process', () => {
  expect(descriptorLimit()).toBeGreaterThan(0);
});
