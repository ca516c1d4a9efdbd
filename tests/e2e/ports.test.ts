import { describe, expect, onTestFinished, test } from 'vitest';
import { ExecServerClient } from '../../src/client/client.ts';
import type { WatchedPort } from '../../src/client/index.ts';
import { FULL_ACCESS } from '../../src/server/auth/access.ts';
import { anonymousPrincipal, type Principal } from '../../src/server/auth/principal.ts';
import { DEFAULT_CONFIG } from '../../src/server/config/config.ts';
import { ExecServer } from '../../src/server/exec-server.ts';
import { PORT_WATCHES_PER_CONNECTION } from '../../src/server/limits.ts';
import { createMemoryPair } from '../../src/transport/memory.ts';
import { overProxy } from '../support/connected-clients.ts';
import { plain } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

/** Listens on a free port until it reads from stdin, and ends with its stdin. */
const LISTENER = `
  const server = require('net').createServer((socket) => socket.on('error', () => {}).end('served'));
  server.listen(0, process.argv[1]);
  process.stdin.on('data', () => server.close()).on('end', () => process.exit());`;

function listener(processId: string, host = '127.0.0.1') {
  return { ...plain, processId, argv: [process.execPath, '-e', LISTENER, host], pipeStdin: true };
}

/** A server whose clients have the given identities. */
function startServer() {
  const server = new ExecServer({ ...DEFAULT_CONFIG, shutdownGracePeriodMs: 0 });
  onTestFinished(() => server.close());
  return async (principal: Partial<Principal> = {}) => {
    const open = async () => {
      const [ours, theirs] = createMemoryPair();
      void server.accept(theirs, { ...anonymousPrincipal(null), ...principal });
      return ours;
    };
    const client = await ExecServerClient.connect({ open, resumable: true });
    onTestFinished(() => client.close());
    return client;
  };
}

/** Watches the ports of a client and keeps the last report. */
async function watched(client: ExecServerClient) {
  const reports: (readonly WatchedPort[])[] = [];
  const watch = await client.watchPorts((ports) => reports.push(ports));
  return { watch, reports, last: () => reports.at(-1) ?? [] };
}

test('reports a port when a program opens it and when it closes it', async () => {
  const client = await startServer()();
  const { last, reports, watch } = await watched(client);
  expect(reports).toEqual([[]]);
  const program = await client.backend.start(listener('p'));
  const found = await waitFor('the port', () => last()[0]);
  expect(found).toEqual({
    port: expect.any(Number),
    address: '127.0.0.1',
    ref: expect.any(String),
    reachable: true,
  });
  const socket = await client.connectTcp({ port: found!.port });
  const [text] = await socket.toArray();
  expect(String(text)).toBe('served');
  const { processes } = await client.call('process/list', { ports: true });
  expect(processes).toMatchObject([{ processId: 'p', ref: found!.ref, ports: [found!.port] }]);
  await program.write('close');
  await waitFor('the end of the port', () => last().length === 0);
  await watch.close();
  expect((await client.call('process/list', {})).processes[0]).not.toHaveProperty('ports');
});

test('an owner sees the ports of its own programs only', async () => {
  const connect = startServer();
  const [alice, bob] = [await connect({ owner: 'alice' }), await connect({ owner: 'bob' })];
  const [ofAlice, ofBob] = [await watched(alice), await watched(bob)];
  await alice.backend.start(listener('a', '0.0.0.0'));
  await waitFor("alice's port", () => ofAlice.last().length === 1);
  await bob.backend.start(listener('b'));
  await waitFor("bob's port", () => ofBob.last().length === 1);
  expect(ofAlice.last().map(({ address }) => address)).toEqual(['0.0.0.0']);
  expect(ofBob.reports.flat().map(({ address }) => address)).toEqual(['127.0.0.1']);
});

test('a watch continues after a lost connection', async () => {
  const { client, proxy, close } = await overProxy();
  onTestFinished(close);
  const { last } = await watched(client);
  proxy.interrupt();
  await waitFor('the loss', () => client.state === 'recovering');
  proxy.restore();
  await client.backend.start(listener('p'));
  await waitFor('the port', () => last().length === 1);
});

describe('the server refuses', () => {
  test('streams and watches without the scope `net`', async () => {
    const client = await startServer()({ access: { ...FULL_ACCESS, net: false } });
    const message = /the token does not allow .*: it needs the scope `net`/;
    await expect(client.connectTcp({ port: 1 })).rejects.toThrow(message);
    await expect(client.watchPorts(() => {})).rejects.toThrow(message);
  });

  test('too many watches, and an id that is in use', async () => {
    const client = await startServer()();
    await client.call('ports/watch', { watchId: '0' });
    await expect(client.call('ports/watch', { watchId: '0' })).rejects.toThrow('is in use');
    for (let index = 1; index < PORT_WATCHES_PER_CONNECTION; index++)
      await client.call('ports/watch', { watchId: String(index) });
    await expect(client.watchPorts(() => {})).rejects.toThrow('the maximum');
    await client.call('ports/unwatch', { watchId: '0' });
    await client.watchPorts(() => {});
  });
});
