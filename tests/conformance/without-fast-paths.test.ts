import { loadCases } from './cases.mjs';
import { play } from './play.ts';
import { startOurs, WEBSOCKET } from './servers.mjs';

/** The areas whose requests a fast path may serve, and two that show the order of answers and events. */
const AREAS = new Set<string | undefined>([
  'fs-read-write',
  'fs-metadata',
  'fs-handles',
  'fs-no-follow',
  'fs-paths',
  'fs-walk',
  'sandbox-programs',
  'exit-codes',
  'request-ids',
]);

play(
  'exec-server',
  (args = WEBSOCKET, files = undefined) => startOurs([...args, '--no-fast-paths'], files),
  // The serial cases take seconds each, for files and output of many megabytes.
  loadCases().filter(({ area, serial }) => AREAS.has(area) && !serial),
);
