import { once } from 'node:events';
import { lstat, unlink } from 'node:fs/promises';
import { connect, type Server } from 'node:net';
import { MAX_UNIX_PATH_BYTES } from '../limits.ts';
import { StartError } from '../start-error.ts';

/**
 * Listens on a socket in the file system that only the user of this process may use. What a server left behind that did not end in
 * good order is replaced; a socket on which somebody listens, and anything that is no socket, is refused. Closing `server` removes it.
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
    await removeLeftover(path);
    await bind(server, path);
  }
}

async function bind(server: Server, path: string): Promise<void> {
  const listening = once(server, 'listening');
  // The file comes to be inside this call: it never has other permissions, not even for a moment.
  const umask = process.umask(0o177);
  try {
    server.listen(path);
  } finally {
    process.umask(umask);
  }
  await listening;
}

async function removeLeftover(path: string): Promise<void> {
  const found = await lstat(path);
  if (!found.isSocket()) throw new StartError(`${path} exists and is not a socket (choose another path)`);
  if (await isServed(path)) throw new StartError(`another server listens on ${path} (choose another path)`);
  const now = await lstat(path);
  // A server that started meanwhile has replaced it.
  if (now.ino !== found.ino) throw new StartError(`another server listens on ${path} (choose another path)`);
  await unlink(path);
}

/** Only a refusal is proof that nobody listens. */
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
