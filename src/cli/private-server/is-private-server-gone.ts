import { once } from 'node:events';
import { createConnection } from 'node:net';
import { privateFolder } from './private-folder.ts';

/** Whether nothing listens on the socket of this user's private server. Then its programs have ended, too. */
export async function isPrivateServerGone(env: NodeJS.ProcessEnv): Promise<boolean> {
  const socket = createConnection(privateFolder(env).socket);
  try {
    await once(socket, 'connect');
    return false;
  } catch (error) {
    return ['ENOENT', 'ECONNREFUSED'].includes(String((error as NodeJS.ErrnoException).code));
  } finally {
    socket.destroy();
  }
}
