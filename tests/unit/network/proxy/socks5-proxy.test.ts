import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { MAX_ASSOCIATIONS, MAX_UDP_TARGETS } from '../../../../src/network/proxy/limits.ts';
import { decodeAddress, encodeAddress } from '../../../../src/network/proxy/socks5-address.ts';
import { waitFor } from '../../../support/wait-for.ts';
import {
  closeFixtures,
  exchange,
  Names,
  openFixture,
  openWebServer,
  type ProxyFixture,
} from './proxy-fixture.ts';

const open: { close(): void }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) each.close();
  await closeFixtures();
});

const LOOPBACK = { '127.0.0.1': 'allow' } as const;
const PASSWORD_METHOD = Buffer.from([5, 1, 2]);
const COMMAND = { connect: 1, bind: 2, associate: 3 } as const;

function password(user: string, secret: string): Buffer {
  return Buffer.concat([
    Buffer.from([1, user.length]),
    Buffer.from(user),
    Buffer.from([secret.length]),
    Buffer.from(secret),
  ]);
}

function request(command: number, host: string, port: number): Buffer {
  const name = Buffer.concat([
    Buffer.from([3, host.length]),
    Buffer.from(host),
    Buffer.from([port >> 8, port & 255]),
  ]);
  const address = /^[\d.]+$|:/.test(host) ? encodeAddress(host, port) : name;
  return Buffer.concat([Buffer.from([5, command, 0]), address]);
}

/** The replies to the handshake in hexadecimal, without those of the authentication. */
async function talk(fixture: ProxyFixture, ...parts: (Buffer | string)[]): Promise<string> {
  const text = await exchange(fixture.socksPort, [
    PASSWORD_METHOD,
    password(fixture.user, fixture.password),
    ...parts,
  ]);
  const hex = Buffer.from(text, 'latin1').toString('hex');
  expect(hex.slice(0, 8)).toBe('05020100');
  return hex.slice(8);
}

describe('CONNECT', () => {
  test('connects both sides', async () => {
    const web = await openWebServer();
    const fixture = await openFixture({ domains: LOOPBACK });
    const reply = await talk(
      fixture,
      request(COMMAND.connect, '127.0.0.1', web.port),
      'GET /s HTTP/1.0\r\n\r\n',
    );
    expect(reply).toMatch(/^050000017f000001/);
    expect(Buffer.from(reply, 'hex').toString()).toContain('from upstream');
    const about = { protocol: 'socks5_tcp', host: '127.0.0.1', port: web.port, decision: 'allow' };
    expect(fixture.decisions).toMatchObject([about]);
    expect(fixture.decisions[0]).not.toHaveProperty('method');
  });

  test.each([
    ['a denied host', 'bad.test', 443, '02', { reason: 'denied' }],
    ['a host that is not listed', 'nope.test', 443, '02', { reason: 'not_allowed' }],
    ['a local address', '127.0.0.2', 443, '02', { reason: 'not_allowed_local' }],
    [
      'a local IPv6 address',
      '::1',
      80,
      '02',
      { reason: 'not_allowed_local', host: '0000:0000:0000:0000:0000:0000:0000:0001' },
    ],
    ['a mapped local address', '::ffff:127.0.0.1', 80, '02', { reason: 'not_allowed_local' }],
    ['a name without an address', 'unknown.test', 443, '02', { reason: 'not_allowed_local' }],
    ['a port where nobody listens', '127.0.0.1', 1, '05', { reason: 'allow' }],
  ])('refuses %s', async (_name, host, port, code, decision) => {
    const fixture = await openFixture({
      domains: { ...LOOPBACK, 'bad.test': 'deny', 'unknown.test': 'allow' },
    });
    expect(await talk(fixture, request(COMMAND.connect, host, port))).toBe(`05${code}0001000000000000`);
    expect(fixture.decisions).toMatchObject([decision]);
  });

  test.each([
    [
      'names that are none',
      Buffer.concat([Buffer.from([5, 1, 0, 3, 3]), Buffer.from('a b'), Buffer.from([0, 80])]),
      '01',
    ],
    ['an empty name', Buffer.from([5, 1, 0, 3, 0, 0, 80]), '01'],
    ['port 0', request(COMMAND.connect, '127.0.0.1', 0), '01'],
    ['BIND', request(COMMAND.bind, '127.0.0.1', 80), '07'],
    ['UDP where it is switched off', request(COMMAND.associate, '0.0.0.0', 0), '07'],
    ['unknown commands', request(9, '127.0.0.1', 80), '07'],
  ])('refuses %s without a decision', async (_name, bytes, code) => {
    const fixture = await openFixture({ domains: LOOPBACK });
    expect(await talk(fixture, bytes)).toBe(`05${code}0001000000000000`);
    expect(fixture.decisions).toEqual([]);
  });

  test('refuses everything in limited mode', async () => {
    const fixture = await openFixture({ domains: LOOPBACK, mode: 'limited' });
    expect(await talk(fixture, request(COMMAND.connect, '127.0.0.1', 80))).toMatch(/^0502/);
    expect(await talk(fixture, request(COMMAND.connect, '127.0.0.1', 443))).toMatch(/^0502/);
    expect(fixture.decisions).toMatchObject([
      { scope: 'non_domain', source: 'mode_guard', reason: 'method_not_allowed', port: 80 },
      { scope: 'domain', decision: 'allow', port: 443 },
      { scope: 'non_domain', source: 'mode_guard', reason: 'mitm_required', port: 443 },
    ]);
  });

  test('accepts a request in single bytes', async () => {
    const web = await openWebServer();
    const fixture = await openFixture({ domains: LOOPBACK });
    const socket = connect(fixture.socksPort, '127.0.0.1');
    let text = '';
    socket.on('data', (data) => {
      text += data.toString('hex');
    });
    const bytes = [
      PASSWORD_METHOD,
      password(fixture.user, fixture.password),
      request(COMMAND.connect, '127.0.0.1', web.port),
    ];
    for (const byte of Buffer.concat(bytes)) {
      await new Promise<void>((resolve) => socket.write(Buffer.from([byte]), () => resolve()));
    }
    await waitFor('the reply', () => text.startsWith('0502010005000001'));
    socket.destroy();
  });
});

describe('authentication', () => {
  test('requires the password', async () => {
    const fixture = await openFixture({ domains: LOOPBACK });
    const wrong = await exchange(fixture.socksPort, [
      PASSWORD_METHOD,
      password(fixture.user, 'f'.repeat(32)),
      'more',
    ]);
    expect(Buffer.from(wrong, 'latin1').toString('hex')).toBe('05020101');
    const none = await exchange(fixture.socksPort, [Buffer.from([5, 1, 0])]);
    expect(Buffer.from(none, 'latin1').toString('hex')).toBe('05ff');
    expect(fixture.decisions).toEqual([]);
  });

  test.each([
    ['SOCKS4', Buffer.from([4, 1, 0, 80, 127, 0, 0, 1, 0])],
    ['HTTP', 'GET / HTTP/1.1\r\n\r\n'],
  ])('closes the connection on %s', async (_name, bytes) => {
    const fixture = await openFixture({ domains: LOOPBACK });
    expect(await exchange(fixture.socksPort, [bytes])).toBe('');
  });

  test('closes the connection on an unknown address type', async () => {
    const fixture = await openFixture({ domains: LOOPBACK });
    expect(await talk(fixture, Buffer.from([5, 1, 0, 9, 0, 0, 0, 0, 0, 0]))).toBe('');
  });
});

describe('UDP', () => {
  /** A UDP relay as a program opens it. */
  async function associate(fixture: ProxyFixture): Promise<{ control: Socket; port: number | null }> {
    const control = connect(fixture.socksPort, '127.0.0.1');
    open.push({ close: () => control.destroy() });
    const next = async (bytes: Buffer) => {
      control.write(bytes);
      return (await once(control, 'data'))[0] as Buffer;
    };
    await next(PASSWORD_METHOD);
    await next(password(fixture.user, fixture.password));
    const reply = await next(request(COMMAND.associate, '0.0.0.0', 0));
    return { control, port: reply[1] === 0 ? (decodeAddress(reply, 3)?.port ?? null) : null };
  }

  async function openEcho(): Promise<number> {
    const echo = createSocket('udp4');
    open.push(echo);
    echo.on('message', (data, { address, port }) => echo.send(`echo ${data}`, port, address));
    echo.bind(0, '127.0.0.1');
    await once(echo, 'listening');
    return (echo.address() as AddressInfo).port;
  }

  async function openClient(): Promise<{
    send(to: number, host: string, port: number, text: string): void;
    got: string[];
  }> {
    const socket = createSocket('udp4');
    open.push(socket);
    const got: string[] = [];
    socket.on('message', (data) => got.push(data.subarray(decodeAddress(data, 3)?.end).toString()));
    socket.bind(0, '127.0.0.1');
    await once(socket, 'listening');
    const send = (to: number, host: string, port: number, text: string) => {
      const head = host.includes('.test')
        ? Buffer.concat([
            Buffer.from([3, host.length]),
            Buffer.from(host),
            Buffer.from([port >> 8, port & 255]),
          ])
        : encodeAddress(host, port);
      socket.send(Buffer.concat([Buffer.alloc(3), head, Buffer.from(text)]), to, '127.0.0.1');
    };
    return { send, got };
  }

  test('relays datagrams to allowed hosts and their replies', async () => {
    const echo = await openEcho();
    const names = new Names({ 'a.test': ['127.0.0.1'] });
    const fixture = await openFixture(
      { domains: { '*': 'allow' }, allowLocalBinding: true, enableSocks5Udp: true },
      { names },
    );
    const { port } = await associate(fixture);
    const client = await openClient();
    client.send(port!, '127.0.0.1', echo, 'one');
    await waitFor('the first answer', () => client.got.includes('echo one'));
    client.send(port!, 'a.test', echo, 'two');
    await waitFor('the second answer', () => client.got.includes('echo two'));
    client.send(port!, 'a.test', echo, 'three');
    await waitFor('the third answer', () => client.got.includes('echo three'));
    expect(fixture.decisions.map(({ protocol, host }) => [protocol, host])).toEqual([
      ['socks5_udp', '127.0.0.1'],
      ['socks5_udp', 'a.test'],
    ]);
  });

  test('drops datagrams to other hosts, and serves only the first sender', async () => {
    const echo = await openEcho();
    const fixture = await openFixture({ domains: LOOPBACK, enableSocks5Udp: true });
    const { port } = await associate(fixture);
    const client = await openClient();
    const stranger = await openClient();
    client.send(port!, '127.0.0.2', echo, 'blocked');
    client.send(port!, '127.0.0.1', echo, 'mine');
    await waitFor('the answer', () => client.got.includes('echo mine'));
    stranger.send(port!, '127.0.0.1', echo, 'not mine');
    client.send(port!, '127.0.0.1', echo, 'again');
    await waitFor('the next answer', () => client.got.includes('echo again'));
    expect([client.got, stranger.got]).toEqual([['echo mine', 'echo again'], []]);
    expect(fixture.decisions).toMatchObject([{ reason: 'not_allowed_local' }, { decision: 'allow' }]);
  });

  test('drops datagrams in limited mode', async () => {
    const fixture = await openFixture({ domains: LOOPBACK, enableSocks5Udp: true, mode: 'limited' });
    const { port } = await associate(fixture);
    const client = await openClient();
    client.send(port!, '127.0.0.1', 9, 'x');
    await waitFor('a decision', () => fixture.decisions.length > 0);
    expect(fixture.decisions).toMatchObject([{ reason: 'method_not_allowed', protocol: 'socks5_udp' }]);
  });

  test('limits destinations and relays, and ends a relay with its connection', async () => {
    const echo = await openEcho();
    const fixture = await openFixture({ domains: LOOPBACK, enableSocks5Udp: true });
    const relays = [await associate(fixture)];
    const client = await openClient();
    const { port, control } = relays[0]!;
    for (let index = 0; index < MAX_UDP_TARGETS; index++) client.send(port!, '127.0.0.2', 1000 + index, 'x');
    await waitFor('a decision about each', () => fixture.decisions.length === MAX_UDP_TARGETS);
    client.send(port!, '127.0.0.1', echo, 'one too many');
    while (relays.length < MAX_ASSOCIATIONS) relays.push(await associate(fixture));
    expect(relays.every((relay) => relay.port !== null)).toBe(true);
    expect((await associate(fixture)).port).toBeNull();
    expect(client.got).toEqual([]);
    control.destroy();
    await waitFor('a free slot for a relay', async () => (await associate(fixture)).port !== null);
  });
});
