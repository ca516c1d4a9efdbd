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

/** What the cases may ask for under `needs`: whether the server runs with the variables above. */
export async function learnFacts(url) {
  const probe = {
    name: 'facts',
    steps: [
      {
        start: 'facts',
        sh: `echo "$CONFORMANCE_PLAIN"`,
        params: {
          env: {},
          envPolicy: { inherit: 'all', ignoreDefaultExcludes: true, exclude: [], set: {}, includeOnly: [] },
        },
      },
      { collect: 'facts', exitCode: 0, stdout: 'plain\n' },
    ],
  };
  const { status } = await runCase(probe, { url, server: 'exec-server' });
  return { serverEnvironment: status === 'passed' };
}
