import { closeSync, fstatSync } from 'node:fs';
import type { SandboxCalls } from '../../process/spawn/spawner.ts';
import { CACHED_PROBES_PER_TURN } from '../limits.ts';
import { type FileProbe, factsOf } from './file-probe.ts';

/**
 * Wraps a probe. Reads facts that are in the kernel's cache synchronously, because a round trip to the thread pool takes ten times as long.
 * The number per event loop turn is limited, so that the event loop is not blocked.
 */
export function kernelCacheProbe(
  probe: FileProbe,
  { openCached }: Pick<SandboxCalls, 'openCached'>,
): FileProbe {
  let left = CACHED_PROBES_PER_TURN;
  const mayProbeNow = () => {
    if (left === CACHED_PROBES_PER_TURN) {
      setImmediate(() => {
        left = CACHED_PROBES_PER_TURN;
      });
    }
    if (left === 0) return false;
    left--;
    return true;
  };
  return {
    ...probe,
    facts: async (path) => {
      const fd = mayProbeNow() ? openCached(path, 'endKept') : null;
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
