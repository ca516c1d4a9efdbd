// The two servers the cases are played against, started the same way.
import { fileURLToPath } from 'node:url';
import { createHome, startAtHome, startReference, startServer } from '../../scripts/reference.mjs';
import { runCase } from './runner.mjs';

const OUR_MAIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));

/** Variables the server runs with, for the cases about inherited environments. */
const SERVER_ENV = {
  CONFORMANCE_PLAIN: 'plain',
  CONFORMANCE_SECRET: 'hidden',
  CONFORMANCE_API_KEY: 'hidden',
  conformance_token: 'hidden',
  LC_ALL: 'C',
  LOGNAME: 'conformance',
};

/** The arguments of a server that listens on a free port. */
export const WEBSOCKET = ['--listen', 'ws://127.0.0.1:0'];

/** The reference binary. It always has a home folder of its own; `files` are put there. */
export function startReferenceForCases(args = WEBSOCKET, files = undefined) {
  return startReference({ args, env: SERVER_ENV, files });
}

/** This project's server, as it was built. With `files` it has a home folder of its own, in which they are. */
export function startOurs(args = WEBSOCKET, files = undefined) {
  const command = [OUR_MAIN, ...args];
  if (files === undefined) return startServer(process.execPath, command, { env: SERVER_ENV });
  return startAtHome(process.execPath, command, { env: SERVER_ENV, home: createHome(files) });
}

/**
 * What the cases may ask for under `needs`: whether the server runs with the variables above, and whether it runs as root, for
 * the cases that make a directory in `/` or whose error is another one for other users, and whether there is a zsh.
 */
export async function learnFacts(url) {
  const [serverEnvironment, superuser, zsh] = await Promise.all([
    prints(url, 'echo "$CONFORMANCE_PLAIN"', 'plain\n'),
    prints(url, '/usr/bin/id -u', '0\n'),
    prints(url, '[ -x /bin/zsh ] && echo zsh', 'zsh\n'),
  ]);
  return { serverEnvironment, superuser, zsh };
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
