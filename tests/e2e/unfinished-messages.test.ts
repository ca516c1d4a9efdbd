import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { type ServerProcess, startServerProcess } from '../../src/testing/index.ts';
import { memoryOf } from '../support/machine.ts';

describe('unfinished messages', () => {
  const MIB = 1024 * 1024;
  let server: ServerProcess;
  beforeAll(async () => {
    server = await startServerProcess(['--max-unfinished-bytes', '64MiB']);
  });
  afterAll(() => server.close());

  /** A client that sends the first part of a message and never its end. `closed` has the close code. */
  async function begin(part: Buffer, isInitialized: boolean) {
    const ws = new WebSocket(server.url);
    const state = { closed: null as [number, string] | null };
    ws.on('error', () => {});
    const closed = new Promise<void>((resolve) => {
      ws.on('close', (code, reason) => {
        state.closed = [code, String(reason)];
        resolve();
      });
    });
    await once(ws, 'open');
    if (isInitialized) {
      ws.send(JSON.stringify({ id: 1, method: 'initialize', params: { clientName: 'x' } }));
      await once(ws, 'message');
    }
    ws.send(part, { fin: false, binary: false });
    ws.ping();
    // The pong says that the server has received the part.
    await Promise.race([once(ws, 'pong'), closed]);
    return { ws, state, closed };
  }

  test('are small before initialize', async () => {
    const before = memoryOf(server.process.pid!, 'VmRSS');
    const part = Buffer.alloc(16 * MIB, 'x');
    const clients = await Promise.all(Array.from({ length: 40 }, () => begin(part, false)));
    for (const { closed, state } of clients) {
      await closed;
      expect(state.closed).toEqual([
        1009,
        'a message has more than 65536 bytes, the limit before initialize',
      ]);
    }
    // Of 640 MiB. What is left are discarded chunks that the garbage collector has not freed yet; Node 24 frees them later than Node 20.
    expect(memoryOf(server.process.pid!, 'VmRSS') - before).toBeLessThan(128 * MIB);
  });

  test('of all connections share a budget, and the oldest are refused', async () => {
    const before = memoryOf(server.process.pid!, 'VmRSS');
    const part = Buffer.alloc(16 * MIB, 'x');
    const clients: Awaited<ReturnType<typeof begin>>[] = [];
    for (let count = 0; count < 12; count++) clients.push(await begin(part, true));
    for (const { closed, state } of clients.slice(0, 8)) {
      await closed;
      expect(state.closed?.[0]).toBe(1013);
      expect(state.closed?.[1]).toContain('maxUnfinishedBytes');
    }
    expect(clients.slice(8).map(({ state }) => state.closed)).toEqual([null, null, null, null]);
    expect(memoryOf(server.process.pid!, 'VmHWM') - before).toBeLessThan(12 * part.length);
    const other = await server.connect();
    expect(await other.call('environment/status', {})).toEqual({ status: 'ready' });
    for (const { ws } of clients) ws.terminate();
    await other.close();
  });
});
