import { statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { defineConfig, type Plugin, type TestProjectInlineConfiguration } from 'vitest/config';

const SRC = join(import.meta.dirname, 'src/');
const DIST = join(import.meta.dirname, 'dist/');

/** Unit tests that replace modules. They alone import the sources, because only Vitest's own modules can be replaced. */
export const MOCKED = [
  'tests/unit/environment/capability-roots/step-skills.test.ts',
  'tests/unit/fast-paths.test.ts',
  'tests/unit/files/hanging-checks.test.ts',
  'tests/unit/files/local/atomic-replace.test.ts',
  'tests/unit/files/local/directory-listing.test.ts',
];

/**
 * Tests that run in a separate process each, which costs 0.4 s of CPU per file. They count or measure something of their own process,
 * change its environment, or take long. All other files run one after the other in processes that they share.
 */
export const ALONE = [
  'e2e/answer-limits',
  'e2e/bench-smoke',
  'e2e/capability-flags',
  'e2e/client-connect',
  'e2e/docs',
  'e2e/file-endings',
  'e2e/file-order',
  'e2e/file-transfer',
  'e2e/flow',
  'e2e/recordings',
  'e2e/relay-faults',
  'e2e/required-skills',
  'e2e/sandbox-unavailable',
  'e2e/screen-cost',
  'e2e/slow-readers',
  'e2e/tcp-streams',
  'e2e/tools-failures',
  'e2e/tools-processes',
  'e2e/tracing',
  'e2e/unfinished-messages',
  'fuzz/**/*',
  'interop/agents-api',
  'soak/**/*',
  'unit/cli/doctor-command',
  'unit/mcp/web-exchange',
  'unit/native/**/*',
  'unit/process/output-log',
  'unit/process/process-manager',
  'unit/process/shell-state/**/*',
  'unit/process/spawn/**/*',
  'unit/process/stdin-queue',
  'unit/process/tree/**/*',
  'unit/sandbox/files/helper-pool',
  'unit/sandbox/linux/**/*',
  'unit/sandbox/self-test/**/*',
].map((name) => `tests/${name}.test.ts`);

/** Tests that assert times. They need a quiet machine: `npm run test:event-loop` runs them, and `npm test` does not. */
const MEASURED = ['tests/e2e/{event-loop,floods,relay-event-loop}.test.ts'];

/**
 * Unit tests that create tens of thousands of files. They do so in memory: ext4 skips recently deleted inodes one by one, and takes up to
 * twenty times as long for a new file while the tests remove as many.
 */
const MANY_FILES = [
  'tests/unit/files/**/*.test.ts',
  'tests/unit/sandbox/files/{emulated-mounts,served-file-system}.test.ts',
];

/** Lets tests import the compiled modules: Node loads them in a fraction of the time that Vitest takes for the sources. */
const BUILT: Plugin = {
  name: 'built-modules',
  enforce: 'pre',
  resolveId(source, importer) {
    if (importer === undefined || !source.startsWith('.')) return null;
    const path = resolve(dirname(importer), source);
    if (!path.startsWith(SRC) || !path.endsWith('.ts')) return null;
    return { id: `${DIST}${path.slice(SRC.length, -'.ts'.length)}.js`, external: true };
  },
};

// Node reads these before anything else, 60 ms in each of the thousand processes that tests start. No test talks to the outside.
delete process.env.NODE_EXTRA_CA_CERTS;

/** Projects start in the order of their names: the long files first, so that none of them is left alone at the end. */
export default defineConfig({
  cacheDir: process.env.VITEST_CACHE_DIR ?? 'node_modules/.vite',
  test: {
    pool: 'forks',
    maxWorkers: 5,
    globalSetup: ['tests/support/empty-home.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // As long as `waitFor`: the default of a second is short beside other tests.
    expect: { poll: { timeout: 40_000 } },
    projects: [
      builtProject('conformance', ['tests/conformance/**/*.test.ts']),
      builtProject('e2e-alone', ALONE, { exclude: ['tests/unit/**'] }),
      builtProject('e2e-shared', ['tests/{e2e,interop}/**/*.test.ts'], {
        exclude: [...ALONE, ...MEASURED],
        isolate: false,
      }),
      builtProject('measured', MEASURED, { fileParallelism: false }),
      builtProject('unit-alone', ALONE, { exclude: ['tests/{e2e,interop,fuzz,soak}/**', ...MOCKED] }),
      builtProject('unit-files', MANY_FILES, {
        exclude: MOCKED,
        isolate: false,
        env: { TMPDIR: memoryFolder() },
      }),
      project('unit-mocked', MOCKED, { env: { TMPDIR: memoryFolder() } }),
      builtProject('unit-shared', ['tests/unit/**/*.test.ts'], {
        exclude: [...ALONE, ...MANY_FILES, ...MOCKED],
        isolate: false,
      }),
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

/** A project whose tests run the package as it is built. */
function builtProject(
  name: string,
  include: string[],
  more: TestProjectInlineConfiguration['test'] = {},
): TestProjectInlineConfiguration {
  const globalSetup = ['tests/support/fresh-build.ts'];
  const server = { deps: { external: [new RegExp(`^(file://)?${DIST}`)] } };
  return { ...project(name, include, { ...more, globalSetup, server }), plugins: [BUILT] };
}

/** The folder of the file system in memory, if it has space, or else that of temporary files. */
function memoryFolder(): string {
  try {
    const { bavail, bsize } = statfsSync('/dev/shm');
    if (bavail * bsize >= 1024 ** 3) return '/dev/shm';
  } catch {
    // There is none.
  }
  return tmpdir();
}
