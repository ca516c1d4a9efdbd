import { sleep } from '../../base/abort.ts';
import { reconnectBackoff } from '../../client/connection/reconnect.ts';
import { ClientError } from '../../client/errors.ts';
import type { Connection, Connector } from './connection.ts';

/**
 * Connects, and retries for `windowMs` after transient failures. The end of the window does not abort an attempt. A window of 0 means
 * a single attempt. Always rejects with a ClientError, soon after `signal` aborts at the latest. A connection that opens after that
 * is closed.
 */
export async function connectWithin(
  connector: Connector,
  windowMs: number,
  signal: AbortSignal,
): Promise<Connection> {
  const endsAt = performance.now() + windowMs;
  const backoff = reconnectBackoff();
  for (;;) {
    try {
      return await connectOnce(connector, signal);
    } catch (error) {
      const failure = toClientError(error);
      const pauseMs = backoff.next();
      if (signal.aborted || !failure.retryable || performance.now() + pauseMs >= endsAt) throw failure;
      await sleep(pauseMs, signal);
    }
  }
}

/** Converts any failure to a ClientError. */
export function toClientError(error: unknown): ClientError {
  if (error instanceof ClientError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new ClientError('connectFailed', message, { cause: error });
}

function connectOnce(connector: Connector, signal: AbortSignal): Promise<Connection> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) {
      abort();
      return;
    }
    signal.addEventListener('abort', abort);
    connector
      .connect(signal)
      .then((connection) => {
        if (signal.aborted) void connection.client.close().catch(() => {});
        else resolve(connection);
      }, reject)
      .finally(() => signal.removeEventListener('abort', abort));
  });
}
