import { lookup } from 'node:dns/promises';
import { Semaphore } from '../../base/semaphore.ts';
import { withTimeout } from '../../base/with-timeout.ts';
import { LOOKUP_TIMEOUT_MS, LOOKUPS_AT_ONCE, MAX_WAITING_LOOKUPS } from './limits.ts';

/** Gives the addresses of a name. */
export type Resolve = (name: string) => Promise<readonly string[]>;

/**
 * Resolves names as the system does, a few at a time. A lookup cannot be given up: one that nobody waits for any more keeps its
 * place until the name server answers or the system gives up.
 */
export function systemLookup(): Resolve {
  const lookups = new Semaphore(LOOKUPS_AT_ONCE, {
    maxWaiting: MAX_WAITING_LOOKUPS,
    tooManyWaiting: () => new Error('too many names are being resolved'),
  });
  return async (name) => {
    await lookups.acquire();
    try {
      return (await lookup(name, { all: true })).map(({ address }) => address);
    } finally {
      lookups.release();
    }
  };
}

/** The addresses of a name, or none when it has none or they do not come in time. */
export async function addressesOf(name: string, resolve: Resolve): Promise<readonly string[]> {
  try {
    return await withTimeout(resolve(name), LOOKUP_TIMEOUT_MS, { onTimeout: () => [] });
  } catch {
    return [];
  }
}
