import { ClientError } from '../../client/errors.ts';
import { RemoteFileSystem } from '../../client/files/remote-file-system.ts';
import { RemoteEnvironment } from '../../environment/remote/remote-environment.ts';
import type { Target } from './target.ts';

/** How long a server is looked for again that was connected before. */
const RETRY_WINDOW_MS = 5_000;

/**
 * The environment of a target, for the tools of a model. The first use connects, and starts the private server if needed. A failure is
 * never final: the next use tries again.
 */
export function targetEnvironment(target: Target, clientName: string): RemoteEnvironment {
  return new RemoteEnvironment(target.name, {
    reconnects: true,
    eager: false,
    retryWindowMs: RETRY_WINDOW_MS,
    async connect(signal) {
      const client = await target.connect({ clientName, signal }).catch((error: Error) => {
        throw asRetryable(error);
      });
      return { client, backend: client.backend, files: new RemoteFileSystem(client), http: client.http };
    },
  });
}

function asRetryable(error: Error): ClientError {
  const kind = error instanceof ClientError ? error.kind : 'connectFailed';
  return new ClientError(kind, error.message, { cause: error, retryable: true });
}
