import { readFileSync } from 'node:fs';

/** Why native calls are not available on this system, or null. It only checks; loading the calls may still fail. */
export function nativeUnavailableReason(wanted: boolean): string | null {
  const system = `${process.platform}-${process.arch}`;
  if (!wanted) return 'terminals are switched off (nativeSpawn is false)';
  if (!NATIVE_SYSTEMS.includes(system)) return `terminals are not supported on ${system}`;
  const files = mappedFiles();
  if (files === null) return 'terminals are not available: /proc is not mounted';
  // A Node that is linked against glibc has the library mapped.
  return files.includes('/libc.so.6')
    ? null
    : 'terminals are not available: this Node does not use the GNU C library';
}

/** The systems for which the constants and structures of native/libc.ts are valid. */
const NATIVE_SYSTEMS = ['linux-x64', 'linux-arm64'];

/** Null when /proc is not mounted. */
function mappedFiles(): string | null {
  try {
    return readFileSync('/proc/self/maps', 'latin1');
  } catch {
    return null;
  }
}
