import { statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { defineConfig, type Plugin, type TestProjectInlineConfiguration } from 'vitest/config';

const SRC = join(import.meta.dirname, 'src/');
const DIST = join(import.meta.dirname, 'dist/');

/**
 * Folders whose unit tests run one after the other in one process. Their tests neither count children or descriptors of the process
 * nor mock modules. All other unit test files run in a separate process each, which costs half a second per file.
 */
export const SHARED =
  'tests/unit/{agent,audit,client,console,environment,listener,mcp,network,observability,protocol,relay,rpc,scripts,server,transport}/**/*.test.ts';

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
  test: {
    pool: 'forks',
    maxWorkers: 5,
    globalSetup: ['tests/support/empty-home.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    projects: [
      builtProject('conformance', ['tests/conformance/**/*.test.ts']),
      builtProject('e2e', ['tests/{e2e,interop,fuzz,soak}/**/*.test.ts']),
      project('unit', ['tests/unit/**/*.test.ts'], { exclude: [SHARED, ...MANY_FILES] }),
      project('unit-files', MANY_FILES, { env: { TMPDIR: memoryFolder() } }),
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

/** A project whose tests run the package as it is built. */
function builtProject(name: string, include: string[]): TestProjectInlineConfiguration {
  const globalSetup = ['tests/support/fresh-build.ts'];
  const server = { deps: { external: [new RegExp(`^(file://)?${DIST}`)] } };
  return { ...project(name, include, { globalSetup, server }), plugins: [BUILT] };
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
