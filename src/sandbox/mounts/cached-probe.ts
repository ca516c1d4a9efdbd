import { closeSync, fstatSync } from 'node:fs';
import type { EnclosingCalls } from '../../process/spawn/spawner.ts';
import { type FileProbe, factsOf } from './file-probe.ts';

/** The same looks; what the system has in memory is looked at at once, without a trip to a thread, which takes ten times as long. */
export function cachedProbe(probe: FileProbe, { openCached }: Pick<EnclosingCalls, 'openCached'>): FileProbe {
  return {
    ...probe,
    facts: async (path) => {
      const fd = openCached(path, 'endKept');
      if (fd === null) return await probe.facts(path);
      if (fd === 'missing') return null;
      try {
        return factsOf(fstatSync(fd, { bigint: true }));
      } finally {
        closeSync(fd);
      }
    },
  };
}
