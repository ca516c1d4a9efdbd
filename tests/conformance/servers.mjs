// The two servers the cases are played against, started the same way.
import { fileURLToPath } from 'node:url';
import { startReference, startServer } from '../../scripts/reference.mjs';
import { runCase } from './runner.mjs';

const OUR_MAIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));

/** Variables the server runs with, for the cases about inherited environments. */
export const SERVER_ENV = {
  CONFORMANCE_PLAIN: 'plain',
  CONFORMANCE_SECRET: 'hidden',
  CONFORMANCE_API_KEY: 'hidden',
  conformance_token: 'hidden',
  LC_ALL: 'C',
  LOGNAME: 'conformance',
};

const WEBSOCKET = ['--listen', 'ws://127.0.0.1:0'];

/** The reference binary. */
export function startReferenceForCases(args = WEBSOCKET) {
  return startReference({ args, env: SERVER_ENV });
}

/** This project's server, as it was built. */
export function startOurs(args = WEBSOCKET) {
  return startServer(process.execPath, [OUR_MAIN, ...args], { env: SERVER_ENV });
}

/**
 * What the cases may ask for under `needs`: whether the server runs with the variables above, and whether it runs as root, for
 * the cases that make a directory in `/` or whose error is another one for other users.
 */
export async function learnFacts(url) {
  const [serverEnvironment, superuser] = await Promise.all([
    prints(url, 'echo "$CONFORMANCE_PLAIN"', 'plain\n'),
    prints(url, '/usr/bin/id -u', '0\n'),
  ]);
  return { serverEnvironment, superuser };
}

async function prints(url, sh, stdout) {
  const envPolicy = { inherit: 'all', ignoreDefaultExcludes: true, exclude: [], set: {}, includeOnly: [] };
  const steps = [
    { start: 'facts', sh, params: { env: {}, envPolicy } },
    { collect: 'facts', exitCode: 0, stdout },
  ];
  const { status } = await runCase({ name: 'facts', steps }, { url, server: 'exec-server' });
  return status === 'passed';
}
