import { existsSync } from 'node:fs';

/**
 * Chromium of the system; undefined when there is none. `scripts/test-tools.mjs` installs the one without windows, which needs a third
 * less CPU time.
 */
export const CHROMIUM = [
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find(existsSync);

/** Options for any machine: without a GPU, as root, and with a small /dev/shm. */
export const CHROMIUM_FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-background-networking',
];

/** Why no browser can be started; null when one can. */
export function chromiumMissing() {
  return CHROMIUM === undefined ? 'there is no Chromium; install chromium-headless-shell' : null;
}
