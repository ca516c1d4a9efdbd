import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Bytes that stay in use because of what `make` returns; garbage does not count. */
export function keptBytes(make: () => unknown): number {
  const before = usedBytes();
  const kept = make();
  const used = usedBytes() - before;
  // Reading it here keeps it alive until it has been measured.
  return kept === undefined ? 0 : used;
}

/** Frees what nobody can reach any more. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

function usedBytes(): number {
  // The engine keeps the text of the latest match.
  /./.test('another text');
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
