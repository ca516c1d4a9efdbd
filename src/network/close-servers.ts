import type { Server, Socket } from 'node:net';

/** Stops listening and destroys the connections. Resolves when all ports are free. */
export async function closeServers(servers: Iterable<Server>, sockets: Iterable<Socket>): Promise<void> {
  const closed = [...servers]
    .filter((server) => server.listening)
    .map((server) => new Promise<void>((resolve) => server.close(() => resolve())));
  for (const socket of sockets) socket.destroy();
  await Promise.all(closed);
}
