import { readFileSync } from 'node:fs';

/** Why native calls are out of the question on this system, or null. It loads nothing; only calling them proves that they work. */
export function nativeUnavailableReason(wanted: boolean): string | null {
  const system = `${process.platform}-${process.arch}`;
  if (!wanted) return 'terminals are switched off (nativeSpawn is false)';
  if (!NATIVE_SYSTEMS.includes(system)) return `terminals are not supported on ${system}`;
  const files = mappedFiles();
  if (files === null) return 'terminals are not available: /proc is not mounted';
  // A process that can call the library has it mapped already.
  return files.includes('/libc.so.6')
    ? null
    : 'terminals are not available: this Node does not use the GNU C library';
}

/** Where the constants and structures of native/libc.ts hold. */
const NATIVE_SYSTEMS = ['linux-x64', 'linux-arm64'];

/** Null where it cannot be told. */
function mappedFiles(): string | null {
  try {
    return readFileSync('/proc/self/maps', 'latin1');
  } catch {
    return null;
  }
}
