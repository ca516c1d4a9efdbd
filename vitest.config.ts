import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';

/**
 * Rooms whose unit tests follow each other in one process: they count no children or descriptors of that process. A file in them that
 * replaces modules is listed below. Everything else gets a process of its own, which costs half a second for each file.
 */
export const SHARED =
  'tests/unit/{agent,audit,client,environment,listener,network,observability,protocol,relay,rpc,scripts,server,transport}/**/*.test.ts';
export const REPLACES_MODULES = 'tests/unit/**/{relay-source,run-executor}.test.ts';

// Node reads these before anything else, 60 ms in each of the thousand processes that tests start. No test talks to the outside.
delete process.env.NODE_EXTRA_CA_CERTS;

/** Projects start in the order of their names: the long files first, so that none of them is left alone at the end. */
export default defineConfig({
  test: {
    pool: 'forks',
    maxWorkers: 4,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    projects: [
      project('conformance', ['tests/conformance/**/*.test.ts']),
      project('e2e', ['tests/{e2e,interop,fuzz,soak}/**/*.test.ts']),
      project('unit', ['tests/unit/**/*.test.ts'], { exclude: [SHARED] }),
      project('unit-replacing', [REPLACES_MODULES]),
      project('unit-shared', [SHARED], { exclude: [REPLACES_MODULES], isolate: false }),
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
