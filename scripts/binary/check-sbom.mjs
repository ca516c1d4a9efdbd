// Checks the list of components of the single executable against sources that the build does not use for it: package-lock.json, the dependencies in
// package.json, and the modules that a new bundle of all programs reads.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
/** The programs and the page that are inside. */
const ENTRIES = [
  'dist/cli/main.js',
  'dist/files/thread/worker.js',
  'dist/files/thread/hash-worker.js',
  'dist/process/screen/screen-worker.js',
  'dist/files/search/worker.js',
  'dist/sandbox/files/inside/helper-program.js',
  'console/src/main.tsx',
  'console/styles/main.css',
];
/** Its native module is inside. It is not a dependency, because it has an install script. */
const NATIVE = 'node_modules/koffi';

/** What is wrong with an SBOM, one line for each problem. `notices` is the text with the licences. */
export async function sbomProblems({ metadata, components }, notices) {
  const { packages } = readJson('package-lock.json');
  const listed = new Map(
    components.map((component) => [`${component.name}@${component.version}`, component]),
  );
  const expected = new Map(
    (await containedPackages()).map((path) => {
      const { version, license } = packages[path];
      return [`${nameOf(path)}@${version}`, license];
    }),
  );
  const shipped = Array.from(
    notices.matchAll(/^(\S+) (\d\S*) \(.*\)$/gm),
    ([, name, version]) => `${name}@${version}`,
  );
  const libraries = [...listed].filter(([, { type }]) => type === 'library');
  return [
    ...[...new Set([...expected.keys(), ...shipped])]
      .filter((name) => !listed.has(name))
      .map((name) => `it lacks ${name}`),
    ...libraries.filter(([name]) => !expected.has(name)).map(([name]) => `${name} is not in the executable`),
    ...libraries
      .filter(([name]) => !shipped.includes(name))
      .map(([name]) => `${name}: its licence is not shipped`),
    ...[metadata.component, ...components]
      .filter((component) => !licenseOf(component))
      .map(({ name }) => `${name} has no licence`),
    ...libraries
      .filter(([name, component]) => expected.has(name) && licenseOf(component) !== expected.get(name))
      .map(
        ([name, component]) => `${name} has the licence ${licenseOf(component)}, not ${expected.get(name)}`,
      ),
    ...(components.some(({ name, version }) => name === 'node' && /^\d+\./.test(version))
      ? []
      : ['it lacks Node']),
  ];
}

/** The paths in package-lock.json of the packages whose code is inside. */
async function containedPackages() {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: ENTRIES,
    outdir: 'not-written',
    write: false,
    metafile: true,
    bundle: true,
    platform: 'node',
    format: 'esm',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    loader: { '.svg': 'empty' },
    logLevel: 'error',
  });
  // The programs load some of these by a `require` that esbuild does not see.
  const direct = Object.keys(readJson('package.json').dependencies).map((name) => `node_modules/${name}`);
  const read = Object.keys(metafile.inputs).flatMap(
    (path) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(path) ?? [],
  );
  return [...new Set([...direct, ...read, NATIVE])];
}

function licenseOf({ licenses = [] }) {
  return licenses.map(({ expression, license }) => expression ?? license?.id ?? license?.name).join(' AND ');
}

function nameOf(path) {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
}

function readJson(name) {
  return JSON.parse(readFileSync(join(root, name), 'utf8'));
}
