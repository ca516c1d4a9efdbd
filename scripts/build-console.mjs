// Builds the page of the web console into dist/console-page: index.html, and assets whose names contain a hash of their content. Builds only
// when a source has changed since the last build.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { writeNotices } from './notices.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const source = join(root, 'console');
const target = join(root, 'dist/console-page');
const stampFile = join(root, 'dist/console-page.cache');

const stamp = stampOf([join(root, 'package-lock.json'), fileURLToPath(import.meta.url), ...filesIn(source)]);
if (!isFresh()) await buildConsole();

/** The sources outside console/ that the last build used are listed in its stamp file. */
function isFresh() {
  if (!existsSync(stampFile) || !existsSync(join(target, 'index.html'))) return false;
  const last = JSON.parse(readFileSync(stampFile, 'utf8'));
  const known = last.others.map((path) => join(root, path));
  return last.stamp === stamp && known.every(existsSync) && last.othersStamp === stampOf(known);
}

async function buildConsole() {
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: {
      console: 'console/src/main.tsx',
      style: 'console/styles/main.css',
      icon: 'console/icon.svg',
    },
    outdir: target,
    write: false,
    metafile: true,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'browser',
    target: ['chrome111', 'firefox115', 'safari16.4'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    minify: true,
    legalComments: 'none',
    loader: { '.svg': 'copy' },
    entryNames: 'assets/[name]-[hash]',
    chunkNames: 'assets/[name]-[hash]',
    assetNames: 'assets/[name]-[hash]',
    logLevel: 'warning',
  });
  const assets = new Map(
    Object.entries(metafile.outputs)
      .filter(([, { entryPoint }]) => entryPoint !== undefined)
      .map(([path, { entryPoint }]) => [entryPoint, basename(path)]),
  );
  const page = readFileSync(join(source, 'index.html'), 'utf8')
    .replace('SCRIPT', assets.get('console/src/main.tsx'))
    .replace('STYLE', assets.get('console/styles/main.css'))
    .replace(
      'ICON',
      assets.get('console/icon.svg') ??
        outputFiles.map(({ path }) => basename(path)).find((name) => name.endsWith('.svg')),
    );
  mkdirSync(join(target, 'assets'), { recursive: true });
  for (const { path, contents } of outputFiles) writeFileSync(path, contents);
  // The new page appears when all its assets exist. Assets of the earlier page go after that.
  writeFileSync(join(target, 'index.html.new'), page);
  renameSync(join(target, 'index.html.new'), join(target, 'index.html'));
  const current = new Set(outputFiles.map(({ path }) => basename(path)));
  for (const name of readdirSync(join(target, 'assets'))) {
    if (!current.has(name)) rmSync(join(target, 'assets', name));
  }
  const others = Object.keys(metafile.inputs).filter(
    (path) => !path.startsWith('console/') && !path.startsWith('node_modules/'),
  );
  writeNotices(join(target, 'THIRD_PARTY_NOTICES.txt'), Object.keys(metafile.inputs));
  const othersStamp = stampOf(others.map((path) => join(root, path)));
  writeFileSync(stampFile, JSON.stringify({ stamp, others, othersStamp }));
}

function stampOf(paths) {
  const hash = createHash('sha256');
  for (const path of paths.toSorted()) hash.update(`${relative(root, path)}\0`).update(readFileSync(path));
  return hash.digest('hex');
}

function filesIn(folder) {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
