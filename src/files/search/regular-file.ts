import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { type NativePath, systemPath } from '../native-path.ts';

/**
 * Reads a file with blocking calls, for the search thread. Null when it is not a regular file, which is checked on the open
 * descriptor, or when `wants` declines after seeing the size and the first bytes.
 */
export function readRegularFile(
  path: NativePath,
  options: { readonly followSymlink: boolean; readonly probeBytes: number },
  wants: (size: number, probe: Buffer) => boolean,
): Buffer | null {
  const descriptor = openSync(systemPath(path), options.followSymlink ? OPEN : OPEN | constants.O_NOFOLLOW);
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) return null;
    const probe = readUpTo(descriptor, Math.min(stats.size, options.probeBytes));
    if (!wants(stats.size, probe)) return null;
    if (probe.length === stats.size) return probe;
    return Buffer.concat([probe, readUpTo(descriptor, stats.size - probe.length)]);
  } finally {
    closeSync(descriptor);
  }
}

/** Opening never waits for the writer of a FIFO that has replaced a file. */
const OPEN = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;

/** The next bytes; fewer only at the end of the file. */
function readUpTo(descriptor: number, length: number): Buffer {
  const buffer = Buffer.allocUnsafe(length);
  let filled = 0;
  while (filled < length) {
    const count = readSync(descriptor, buffer, filled, length - filled, null);
    if (count === 0) break;
    filled += count;
  }
  return buffer.subarray(0, filled);
}
