/**
 * Milliseconds since the process started, from a clock that never jumps. Not for browsers. It is not `performance.now()`, because Node
 * loads a module of its own for the global `performance`: about 1 ms of a server's start.
 */
export function uptimeMs(): number {
  return process.uptime() * 1_000;
}
