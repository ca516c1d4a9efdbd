// Builds the single executable: Node with the program, its worker threads, the file helper, the console page and koffi inside. Writes it
// to build/binary, with checksums, a list of its components (SBOM), the licences and install.sh. Files of an earlier build do not stay.
//
//   npm run build:binary [-- --arch x64|arm64]...          this machine's architecture by default
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { recordCodeCaches } from './binary/code-cache.mjs';
import { replaceReleaseFolder } from './binary/release-folder.mjs';
import { sbomOf } from './binary/sbom.mjs';
import { BUNDLES, bundleCli } from './bundle-cli.mjs';
import { bundleProgram } from './bundle-program.mjs';
import { ensureNode } from './nodes.mjs';
import { packagesOf, writeNotices } from './notices.mjs';
import { ensurePackage } from './package-cache.mjs';

/** A line that is supported for long, and whose programs need no library that a minimal Debian lacks: Node 26 needs libatomic. */
const NODE_VERSION = '24.21.0';
const POSTJECT_VERSION = '1.0.0-alpha.6';
/** The marker in Node that shows that it contains a program. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';
const ARCHITECTURES = ['x64', 'arm64'];

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const target = join(root, 'build/binary');
const dist = join(root, 'dist');

const { values } = parseArgs({ options: { arch: { type: 'string', multiple: true } } });
const architectures = values.arch ?? [process.arch];
const unknown = architectures.find((arch) => !ARCHITECTURES.includes(arch));
if (unknown !== undefined) {
  process.stderr.write(`build-binary: --arch ${unknown}: expected ${ARCHITECTURES.join(' or ')}\n`);
  process.exit(2);
}

/** The module loads the library from node_modules. Without this line it is part of the bundle. */
const bundledScreenLibrary = {
  name: 'bundled-screen-library',
  setup(builder) {
    builder.onLoad({ filter: /\/screen\/headless-terminal\.js$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8');
      const contents = text.replace('const require = createRequire(import.meta.url);', '');
      if (contents === text) throw new Error(`${path} no longer loads the library as build-binary expects`);
      return { contents, loader: 'js' };
    });
  },
};

mkdirSync(dirname(target), { recursive: true });
const work = mkdtempSync(join(root, 'build', 'work-'));
const draft = join(work, 'binary');
mkdirSync(draft);
try {
  const { assets, sources } = await buildAssets();
  for (const arch of architectures) await buildExecutable(arch, assets);
  const node = dirname(dirname(await ensureNode(NODE_VERSION)));
  writeNotices(join(draft, 'THIRD_PARTY_NOTICES.txt'), [...sources, 'node_modules/koffi/']);
  const nodeLicense = readFileSync(join(node, 'LICENSE'), 'utf8');
  writeFileSync(
    join(draft, 'THIRD_PARTY_NOTICES.txt'),
    `\n${'-'.repeat(78)}\n\nNode.js ${NODE_VERSION}\n\n${nodeLicense}`,
    {
      flag: 'a',
    },
  );
  const sbom = sbomOf([...packagesOf(sources), 'koffi'], NODE_VERSION);
  writeFileSync(join(draft, 'exec-server.cdx.json'), `${JSON.stringify(sbom, null, 2)}\n`);
  copyFileSync(join(root, 'scripts/install.sh'), join(draft, 'install.sh'));
  replaceReleaseFolder(draft, target);
  for (const arch of architectures) process.stdout.write(`${join(target, executableName(arch))}\n`);
} finally {
  rmSync(work, { recursive: true, force: true });
}

/** The embedded files by their names, which src/base/embedded-files.ts explains, and the paths of the sources in them. */
async function buildAssets() {
  const cli = await bundleCli({ plugins: [bundledScreenLibrary] });
  const sources = [...cli.sources];
  const assets = new Map();
  const add = (name, text) => {
    const file = join(work, name.replaceAll('/', '-'));
    writeFileSync(file, text);
    assets.set(name, file);
  };
  const addProgram = async (name, entry) => {
    const program = await bundleProgram(join(dist, entry), { plugins: [bundledScreenLibrary] });
    sources.push(...program.sources);
    add(name, program.text);
  };
  for (const [name, text] of Object.entries(cli.texts)) add(`bin/${name}.js`, text);
  for (const thread of [
    'files/thread/worker.js',
    'files/thread/hash-worker.js',
    'process/screen/screen-worker.js',
  ]) {
    await addProgram(thread, thread);
  }
  assets.set('bin/file-search-thread.cjs', join(dist, 'bin/file-search-thread.cjs'));
  const helper = readFileSync(join(dist, 'bin/file-helper.cjs'), 'latin1');
  add('bin/file-helper.cjs', `(function(exports,require,module,__filename,__dirname){${helper}\n})`);
  const page = join(dist, 'console-page');
  assets.set('console-page/index.html', join(page, 'index.html'));
  for (const name of readdirSync(join(page, 'assets'))) {
    assets.set(`console-page/assets/${name}`, join(page, 'assets', name));
  }
  const pagePackages = readFileSync(join(page, 'THIRD_PARTY_NOTICES.txt'), 'utf8').matchAll(
    /^(\S+) \d\S* \(.*\)$/gm,
  );
  sources.push(...Array.from(pagePackages, ([, name]) => `node_modules/${name}/`));
  return { assets, sources };
}

async function buildExecutable(arch, assets) {
  const node = await ensureNode(NODE_VERSION, arch);
  const withNative = new Map(assets).set('koffi.node', await nativeModule(arch));
  const stripped = join(work, `node-${arch}`);
  copyFileSync(node, stripped);
  chmodSync(stripped, 0o755);
  strip(stripped, arch);
  const main = readFileSync(join(root, 'scripts/binary/main.cjs'), 'utf8').replace(
    'BUNDLES',
    JSON.stringify(BUNDLES),
  );
  const recorder = join(work, `recorder-${arch}`);
  const caches = await recordCodeCaches(arch, async (recorderCode) => {
    await assemble(stripped, recorder, main + recorderCode, withNative);
    return recorder;
  });
  for (const [name, bytes] of caches) {
    const file = join(work, `${name.replaceAll('/', '-')}-${arch}`);
    writeFileSync(file, bytes);
    withNative.set(name, file);
  }
  await assemble(stripped, join(draft, executableName(arch)), main, withNative);
}

function executableName(arch) {
  return `exec-server-linux-${arch}`;
}

/** Writes an executable with this first program and these files. */
async function assemble(node, output, main, assets) {
  const mainFile = join(work, 'main.cjs');
  const configFile = join(work, 'sea.json');
  const blob = join(work, 'blob');
  writeFileSync(mainFile, main);
  const config = {
    main: mainFile,
    output: blob,
    disableExperimentalSEAWarning: true,
    assets: Object.fromEntries(assets),
  };
  writeFileSync(configFile, JSON.stringify(config));
  // The program that reads the configuration must be of the same version, and may be of another architecture.
  const host = await ensureNode(NODE_VERSION);
  execFileSync(host, ['--experimental-sea-config', configFile], { stdio: ['ignore', 'ignore', 2] });
  copyFileSync(node, output);
  const postject = await ensurePackage('postject', POSTJECT_VERSION, (folder) => {
    const file = join(folder, 'node_modules/postject/dist/cli.js');
    return existsSync(file) ? file : undefined;
  });
  const args = [postject, output, 'NODE_SEA_BLOB', blob, '--sentinel-fuse', FUSE];
  execFileSync(process.execPath, args, { stdio: ['ignore', 'ignore', 'ignore'] });
  chmodSync(output, 0o755);
}

/** Removes the symbols, which are a seventh of Node. Without a program for the architecture they stay. */
function strip(file, arch) {
  const foreign = { x64: 'x86-64-linux-gnu', arm64: 'aarch64-linux-gnu' }[arch];
  const [program, debianPackage] =
    arch === process.arch
      ? ['strip', 'binutils']
      : [`${foreign.replace('x86-', 'x86_')}-strip`, `binutils-${foreign}`];
  try {
    execFileSync(program, [file], { stdio: 'ignore' });
  } catch {
    process.stderr.write(
      `build-binary: ${program} is missing (Debian package ${debianPackage}): the executable for ${arch} keeps its symbols\n`,
    );
  }
}

function nativeModule(arch) {
  const name = `@koromix/koffi-linux-${arch}`;
  const { version } = JSON.parse(readFileSync(join(root, 'node_modules/koffi/package.json'), 'utf8'));
  const find = (folder) => {
    const file = join(folder, 'node_modules', name, `linux_${arch}/koffi.node`);
    return existsSync(file) ? file : undefined;
  };
  return find(root) ?? ensurePackage(name, version, find, ['--force']);
}
