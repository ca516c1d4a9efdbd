import { once } from 'node:events';
import { chmodSync, chownSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, test } from 'vitest';
import { checkPassedUnixSocket } from '../../../src/listener/passed-unix-socket.ts';

const folder = mkdtempSync(join(tmpdir(), 'passed-unix-socket-'));
afterAll(() => rmSync(folder, { recursive: true }));

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** Listens, and returns the descriptor of the socket, which a service manager would pass. */
async function listening(address: string | number): Promise<number> {
  const server = createServer();
  servers.push(server);
  server.listen(typeof address === 'number' ? { port: address, host: '127.0.0.1' } : address);
  await once(server, 'listening');
  return (server as unknown as { _handle: { fd: number } })._handle.fd;
}

const path = join(folder, 'own.sock');

test('accepts a socket at the path that only its owner can open', async () => {
  const descriptor = await listening(path);
  chmodSync(path, 0o600);
  checkPassedUnixSocket(descriptor, path, false);
});

test.each([0o666, 0o620, 0o602])('refuses mode %o, unless clients need a token', async (mode) => {
  const descriptor = await listening(path);
  chmodSync(path, mode);
  expect(() => checkPassedUnixSocket(descriptor, path, false)).toThrow(
    `the socket ${path} that the service manager passed would serve other users: its mode is 0${mode.toString(8)}; set SocketMode=0600`,
  );
  checkPassedUnixSocket(descriptor, path, true);
});

test('refuses another path, an abstract socket and a port, even if clients need a token', async () => {
  const other = join(folder, 'other.sock');
  const abstract = `passed-unix-socket-${process.pid}`;
  for (const [address, shown] of [
    [other, `the Unix socket ${other}`],
    [`\0${abstract}`, `the abstract Unix socket @${abstract}`],
    [0, 'a socket that is not a Unix socket of this network namespace'],
  ] as const) {
    const descriptor = await listening(address);
    for (const requiresToken of [false, true]) {
      expect(() => checkPassedUnixSocket(descriptor, path, requiresToken)).toThrow(`passed ${shown}`);
    }
  }
});

test('refuses a socket whose file is gone', async () => {
  const descriptor = await listening(path);
  rmSync(path);
  expect(() => checkPassedUnixSocket(descriptor, path, false)).toThrow(
    'its permissions are not known (ENOENT)',
  );
});

test.skipIf(process.geteuid!() !== 0)('refuses a socket of another user', async () => {
  const descriptor = await listening(path);
  chmodSync(path, 0o600);
  chownSync(path, 12345, 12345);
  expect(() => checkPassedUnixSocket(descriptor, path, false)).toThrow(
    'it belongs to user 12345, and the server runs as user 0',
  );
});
