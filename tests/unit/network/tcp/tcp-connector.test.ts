import { once } from 'node:events';
import type { OnReadOpts } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { hostPatterns } from '../../../../src/network/http/host-policy.ts';
import { type Resolve, ServerPorts } from '../../../../src/network/proxy/proxy-resources.ts';
import { TcpConnector } from '../../../../src/network/tcp/tcp-connector.ts';
import { tcpPeer } from '../../../support/tcp-peers.ts';

const IGNORE: OnReadOpts = { buffer: Buffer.alloc(1024), callback: () => true };
const NEVER = new AbortController().signal;

interface Settings {
  readonly allowed?: string;
  readonly denied?: string;
  readonly privateAddresses?: boolean;
  readonly names?: Readonly<Record<string, readonly string[]>>;
}

function fixture({ allowed = '', denied = '', privateAddresses = true, names = {} }: Settings = {}) {
  const resolved: string[] = [];
  const resolve: Resolve = async (name) => {
    resolved.push(name);
    return names[name] ?? [];
  };
  const serverPorts = new ServerPorts();
  const policy = { allowed: hostPatterns(allowed), denied: hostPatterns(denied), privateAddresses };
  const connector = new TcpConnector({ policy, resolve, serverPorts });
  const connect = async (host: string, port: number) => {
    const { socket, address } = await connector.connect(host, port, IGNORE, NEVER);
    onTestFinished(() => void socket.destroy());
    expect(socket.remoteAddress).toBe(address);
    return address;
  };
  return { connector, connect, resolved, serverPorts };
}

const refusal = (message: string) =>
  expect.objectContaining({ kind: 'refused', message: expect.stringContaining(message) });

describe('without configuration', () => {
  test.each(['127.0.0.1', 'localhost', 'LOCALHOST.', '127.1', '0x7f.1'])(
    'reaches the loopback as %s',
    async (host) => {
      const { port } = await tcpPeer(() => {});
      const { connect, resolved } = fixture();
      expect(await connect(host, port)).toBe('127.0.0.1');
      expect(resolved).toEqual([]);
    },
  );

  test('reaches the IPv6 loopback, also as localhost', async () => {
    const { port } = await tcpPeer(() => {}, '::1');
    const { connect } = fixture();
    expect(await connect('::1', port)).toBe('::1');
    expect(await connect('[::1]', port)).toBe('::1');
    expect(await connect('localhost', port)).toBe('::1');
  });

  test.each([
    '192.168.1.1',
    '8.8.8.8',
    '0.0.0.0',
    '::',
    '169.254.169.254',
    'fd00::1',
    'db.example',
    'a.localhost',
  ])('refuses %s and does not look it up', async (host) => {
    const { connect, resolved } = fixture({ names: { [host]: ['127.0.0.1'] } });
    await expect(connect(host, 1)).rejects.toEqual(refusal('tcpAllowedHosts'));
    expect(resolved).toEqual([]);
  });

  test.each(['/run/docker.sock', 'unix:/run/x', 'a b', '', 'fe80::1%eth0', '@abstract'])(
    'rejects %j as a host',
    async (host) => {
      await expect(fixture().connect(host, 1)).rejects.toMatchObject({ kind: 'invalid' });
    },
  );
});

describe('with tcpAllowedHosts', () => {
  test('connects to the address that it checked, without a second lookup', async () => {
    const { port } = await tcpPeer(() => {});
    const { connect, resolved } = fixture({ allowed: '*.example', names: { 'db.example': ['127.0.0.1'] } });
    expect(await connect('db.example', port)).toBe('127.0.0.1');
    expect(resolved).toEqual(['db.example']);
    await expect(connect('example', port)).rejects.toEqual(refusal('tcpAllowedHosts'));
  });

  test('reports a name without an address', async () => {
    await expect(fixture({ allowed: '*' }).connect('gone.example', 1)).rejects.toMatchObject({
      kind: 'failed',
      message: 'tcp/connect to gone.example:1 failed: the name has no address',
    });
  });

  test.each([
    '169.254.169.254',
    '::ffff:169.254.169.254',
    '100.100.100.200',
    'fd00:ec2::254',
    'fe80::1',
    '64:ff9b::a9fe:a9fe',
  ])('refuses the metadata address %s unless it is listed itself', async (address) => {
    const named = { allowed: '*', names: { 'rebind.example': [address] } };
    await expect(fixture(named).connect('rebind.example', 1)).rejects.toEqual(refusal('metadata'));
    await expect(fixture(named).connect(address, 1)).rejects.toEqual(refusal('metadata'));
  });

  test('reaches a metadata address that is listed itself', async () => {
    const aborted = AbortSignal.abort(new Error('far enough'));
    const { connector } = fixture({ allowed: '169.254.169.254' });
    await expect(connector.connect('169.254.169.254', 1, IGNORE, aborted)).rejects.toMatchObject({
      kind: 'failed',
    });
  });
});

describe('with the settings of http/request', () => {
  test('refuses denied hosts and addresses', async () => {
    const { port } = await tcpPeer(() => {});
    const denied = {
      allowed: '*',
      denied: 'bad.example,127.0.0.1',
      names: { 'good.example': ['127.0.0.1'] },
    };
    const { connect, resolved } = fixture(denied);
    await expect(connect('bad.example', port)).rejects.toEqual(refusal('httpDeniedHosts'));
    expect(resolved).toEqual([]);
    for (const host of ['127.0.0.1', '::ffff:127.0.0.1', 'good.example'])
      await expect(connect(host, port)).rejects.toEqual(refusal('httpDeniedHosts'));
  });

  test('refuses addresses that are not public, including the loopback', async () => {
    const { connect } = fixture({
      allowed: '*',
      privateAddresses: false,
      names: { 'in.example': ['10.0.0.1'] },
    });
    for (const host of ['127.0.0.1', 'localhost', '10.0.0.1', 'in.example'])
      await expect(connect(host, 1)).rejects.toEqual(refusal('httpPrivateAddresses'));
  });
});

test('refuses the ports of the server itself on every address of the machine', async () => {
  const { connect, serverPorts } = fixture({ allowed: '*' });
  serverPorts.add(4321);
  for (const host of ['127.0.0.1', '127.9.9.9', 'localhost', '0.0.0.0', '::'])
    await expect(connect(host, 4321)).rejects.toEqual(refusal('the port belongs to this server'));
});

test('reports a refused connection, and an abort', async () => {
  const peer = await tcpPeer(() => {});
  await peer.close();
  const { connector, connect } = fixture();
  await expect(connect('127.0.0.1', peer.port)).rejects.toMatchObject({
    kind: 'failed',
    message: `tcp/connect to 127.0.0.1:${peer.port} failed: connection refused; no program listens on this port`,
  });
  const reason = AbortSignal.abort(new Error('given up'));
  await expect(connector.connect('127.0.0.1', peer.port, IGNORE, reason)).rejects.toThrow('given up');
});

test('opens a socket that reads nothing before it is resumed', async () => {
  const peer = await tcpPeer((socket) => socket.end('hello'));
  const read: string[] = [];
  const onread: OnReadOpts = {
    buffer: Buffer.alloc(1024),
    callback: (length, buffer) => read.push(Buffer.from(buffer).toString('utf8', 0, length)) > 0,
  };
  const { socket } = await fixture().connector.connect('127.0.0.1', peer.port, onread, NEVER);
  onTestFinished(() => void socket.destroy());
  await new Promise((resolve) => setImmediate(resolve));
  expect(read).toEqual([]);
  socket.resume();
  await once(socket, 'end');
  expect(read).toEqual(['hello']);
});
