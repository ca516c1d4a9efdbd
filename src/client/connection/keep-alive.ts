import { ClientError } from '../errors.ts';
import { CallLimit } from './call-limit.ts';
import type { Link } from './link.ts';

/**
 * Calls the server at an interval and drops a connection on which neither the answer nor another message arrives in time; 0 is no limit.
 * On a slow connection the answer may be behind megabytes of output. For transports without pings. Returns a function that ends it.
 */
export function keepAlive(currentLink: () => Link | null, intervalMs: number, timeoutMs: number): () => void {
  const probe = async () => {
    const link = currentLink();
    const received = link?.received;
    const limit = new CallLimit('the keep-alive probe', timeoutMs === 0 ? {} : { timeoutMs });
    await link?.call('environment/status', {}, { signal: limit.signal }).catch((error: unknown) => {
      if (error instanceof ClientError && error.kind === 'timeout' && link.received === received)
        link.drop('the server does not answer keep-alive probes');
    });
    limit.end();
  };
  const timer = setInterval(() => void probe(), intervalMs);
  return () => clearInterval(timer);
}
