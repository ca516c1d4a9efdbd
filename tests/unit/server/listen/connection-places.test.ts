import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import {
  ConnectionPlaces,
  countedAddress,
  type Peer,
} from '../../../../src/server/listen/connection-places.ts';

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
])('%s is counted as %s', (remoteAddress, counted) => {
  expect(countedAddress({ remoteAddress })).toBe(counted);
});

test('the limits are named, and who leaves makes room', async () => {
  const places = new ConnectionPlaces(LIMITS);
  const near = [peer('192.0.2.1'), peer('192.0.2.1')];
  for (const socket of near) places.admit(socket);
  expect(places.obstacle(peer('192.0.2.1'))).toContain('maxConnectionsPerAddress');
  expect(places.obstacle(peer('192.0.2.2'))).toBeNull();
  const local = peer();
  places.admit(local);
  expect(places.obstacle(peer('192.0.2.2'))).toContain('(maxConnections)');
  expect([...places.admitted]).toHaveLength(3);
  await close(near[0]!);
  expect(places.obstacle(peer('192.0.2.1'))).toBeNull();
  expect([...places.admitted]).toHaveLength(2);
});

test.each(['192.0.2.1', undefined])(
  'those who wait from %s give way to newcomers, oldest first',
  async (from) => {
    const places = new ConnectionPlaces(LIMITS);
    places.admit(peer());
    places.admit(peer());
    const [first, second, third, fourth] = [peer(from), peer(from), peer(from), peer(from)];
    expect(places.arrived(first)).toBeNull();
    expect(places.arrived(second)).toBeNull();
    expect(places.arrived(third)).toBe(first);
    await close(second);
    expect(places.arrived(fourth)).toBeNull();
    expect([...places.pending]).toEqual([third, fourth]);
  },
);

test('a connection behind TLS leaves the place of the socket it came on', () => {
  const places = new ConnectionPlaces(LIMITS);
  const raw = peer('192.0.2.1');
  places.arrived(raw);
  places.admit(
    Object.assign(new PassThrough(), { remoteAddress: raw.remoteAddress, remotePort: raw.remotePort }),
  );
  expect([...places.pending]).toEqual([]);
});

test('one port of a peer that reaches two addresses of this machine is two connections', () => {
  const places = new ConnectionPlaces(LIMITS);
  const from = { remoteAddress: '192.0.2.1', remotePort: 7 };
  for (const localAddress of ['198.51.100.1', '198.51.100.2']) {
    places.arrived(Object.assign(new PassThrough(), from, { localAddress }));
  }
  expect([...places.pending]).toHaveLength(2);
});
