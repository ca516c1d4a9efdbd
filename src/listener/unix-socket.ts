import { once } from 'node:events';
import { lstat, unlink } from 'node:fs/promises';
import { connect, type Server } from 'node:net';
import { MAX_UNIX_PATH_BYTES } from './limits.ts';
import { StartError } from './start-error.ts';

/**
 * Listens on a Unix socket that only the user of this process can open. Replaces the stale socket of a server that crashed. Refuses a
 * socket that another server listens on, and a path that is not a socket. Closing `server` removes the socket.
 */
export async function listenOnUnixSocket(server: Server, path: string): Promise<void> {
  if (Buffer.byteLength(path) > MAX_UNIX_PATH_BYTES) {
    throw new StartError(
      `the path of the socket has ${Buffer.byteLength(path)} bytes, the system allows ${MAX_UNIX_PATH_BYTES}: ${path}`,
    );
  }
  try {
    await bind(server, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    await removeStaleSocket(path);
    await bind(server, path);
  }
}

async function bind(server: Server, path: string): Promise<void> {
  const listening = once(server, 'listening');
  // This call creates the file synchronously, so the umask applies from the first moment.
  const umask = process.umask(0o177);
  try {
    server.listen(path);
  } finally {
    process.umask(umask);
  }
  await listening;
}

async function removeStaleSocket(path: string): Promise<void> {
  const found = await lstat(path);
  if (!found.isSocket()) throw new StartError(`${path} exists and is not a socket (choose another path)`);
  if (await isServed(path)) throw new StartError(`another server listens on ${path} (choose another path)`);
  const now = await lstat(path);
  // Another server started in the meantime and replaced the socket.
  if (now.ino !== found.ino) throw new StartError(`another server listens on ${path} (choose another path)`);
  await unlink(path);
}

/** Only ECONNREFUSED proves that no process listens. */
async function isServed(path: string): Promise<boolean> {
  const socket = connect(path);
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ECONNREFUSED';
  } finally {
    socket.destroy();
  }
}
