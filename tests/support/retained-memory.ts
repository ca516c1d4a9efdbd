import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Returns how many bytes the result of `make` keeps in use. Garbage does not count. */
export function retainedBytes(make: () => unknown): number {
  const before = usedBytes();
  const kept = make();
  const used = usedBytes() - before;
  // Reading it here keeps it alive until it has been measured.
  return kept === undefined ? 0 : used;
}

/** Frees unreachable memory. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

function usedBytes(): number {
  // The engine keeps the text of the latest match.
  /./.test('another text');
  // A collection frees array buffers in the background. The next one waits for that.
  collectGarbage();
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
