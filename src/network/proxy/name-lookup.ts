import { lookup } from 'node:dns/promises';
import { LOOKUP_TIMEOUT_MS, LOOKUPS_AT_ONCE, MAX_WAITING_LOOKUPS } from './limits.ts';

/** Gives the addresses of a name. */
export type Resolve = (name: string) => Promise<readonly string[]>;

/**
 * Resolves names as the system does, a few at a time. A lookup cannot be given up: one that nobody waits for any more keeps its
 * place until the name server answers or the system gives up.
 */
export function systemLookup(): Resolve {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (name) => {
    if (waiting.length >= MAX_WAITING_LOOKUPS) throw new Error('too many names are being resolved');
    if (running < LOOKUPS_AT_ONCE) running++;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return (await lookup(name, { all: true })).map(({ address }) => address);
    } finally {
      // The place goes to the next one, if there is one.
      const next = waiting.shift();
      if (next === undefined) running--;
      else next();
    }
  };
}

/** The addresses of a name, or none when it has none or they do not come in time. */
export async function addressesOf(name: string, resolve: Resolve): Promise<readonly string[]> {
  let timer: NodeJS.Timeout | undefined;
  const timeUp = new Promise<readonly string[]>((give) => {
    timer = setTimeout(() => give([]), LOOKUP_TIMEOUT_MS);
  });
  try {
    return await Promise.race([resolve(name), timeUp]);
  } catch {
    return [];
  } finally {
    clearTimeout(timer);
  }
}
