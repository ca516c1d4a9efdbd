import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';

/**
 * Folders whose unit tests run one after the other in one process. Their tests neither count children or descriptors of the process
 * nor mock modules. All other unit test files run in a separate process each, which costs half a second per file.
 */
export const SHARED =
  'tests/unit/{agent,audit,client,environment,listener,network,observability,protocol,relay,rpc,scripts,server,transport}/**/*.test.ts';

// Node reads these before anything else, 60 ms in each of the thousand processes that tests start. No test talks to the outside.
delete process.env.NODE_EXTRA_CA_CERTS;

/** Projects start in the order of their names: the long files first, so that none of them is left alone at the end. */
export default defineConfig({
  test: {
    pool: 'forks',
    maxWorkers: 5,
    globalSetup: ['tests/support/empty-home.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    projects: [
      project('conformance', ['tests/conformance/**/*.test.ts']),
      project('e2e', ['tests/{e2e,interop,fuzz,soak}/**/*.test.ts']),
      project('unit', ['tests/unit/**/*.test.ts'], { exclude: [SHARED] }),
      project('unit-shared', [SHARED], { isolate: false }),
    ],
  },
});

function project(
  name: string,
  include: string[],
  more: TestProjectInlineConfiguration['test'] = {},
): TestProjectInlineConfiguration {
  return { extends: true, test: { name, include, ...more } };
}
