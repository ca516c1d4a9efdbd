import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** Starts a server on a free port. Tries another port when a different program takes it first. */
export async function onFreePort<T>(start: (port: number) => Promise<T>): Promise<T> {
  return whileTaken(async () => start(await freePort()));
}

/** Repeats a start while the address is in use, also by a connection that has chosen the same port. */
export async function whileTaken<T>(start: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await start();
    } catch (error) {
      if (!/EADDRINUSE|address already in use|port is in use/i.test((error as Error).message)) throw error;
      await delay(20);
    }
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
