// Makes the bin: the command line as one file, compiled in advance. Starting it reads three files in place of two hundred and
// compiles none, which is most of what a start costs. Native code stays outside and is loaded when the first program is started.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { bundleFileHelper } from './bundle-file-helper.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = join(root, 'dist/bin');

/** The websocket library loads these for clients over TLS and for compression. A server uses neither: they are loaded on use. */
const deferredBuiltins = {
  name: 'deferred-builtins',
  setup(builder) {
    builder.onResolve({ filter: /^(https|tls|zlib)$/ }, ({ path, importer }) =>
      importer.includes('/ws/lib/') ? { path, namespace: 'deferred' } : undefined,
    );
    builder.onLoad({ filter: /.*/, namespace: 'deferred' }, ({ path }) => ({
      contents: `module.exports = new Proxy({}, { get: (_, name) => require('node:${path}')[name] });`,
    }));
  },
};

const { outputFiles } = await build({
  entryPoints: [join(root, 'dist/cli/main.js')],
  write: false,
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'cjs',
  external: ['koffi', '@redis/client', 'yaml'],
  alias: { bufferutil: join(root, 'scripts/ws-buffer-util.cjs') },
  supported: { 'dynamic-import': false },
  plugins: [deferredBuiltins],
  minify: true,
  legalComments: 'none',
  define: { 'import.meta.url': '__bundleUrl' },
  banner: { js: "const __bundleUrl=require('node:url').pathToFileURL(__filename).href;" },
  logLevel: 'warning',
});
const bundle = outputFiles[0].contents;
const name = `bundle-${createHash('sha256').update(bundle).digest('hex').slice(0, 16)}`;
const bin = join(folder, 'exec-server.cjs');
const newBin = `${bin}.${process.pid}.cjs`;
const loader = readFileSync(join(root, 'scripts/bin-loader.cjs'), 'utf8').replaceAll('BUNDLE_NAME', name);

mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, `${name}.js`), bundle);
writeFileSync(newBin, loader);
chmodSync(newBin, 0o755);
compileInAdvance();
// Who starts the bin meanwhile gets the old one or the new one, never half of it.
renameSync(newBin, bin);
for (const file of readdirSync(folder)) {
  if (file.startsWith('bundle-') && !file.startsWith(`${name}.`)) rmSync(join(folder, file));
}

await bundleFileHelper({ source: join(root, 'dist'), extension: 'js', folder });

/** Without compiled code the bin works as well, some milliseconds later. */
function compileInAdvance() {
  const cache = join(folder, `${name}.cache`);
  const script = join(root, 'scripts/compile-bundle.cjs');
  const { status } = spawnSync(process.execPath, [script, newBin, cache], { stdio: ['ignore', 'ignore', 2] });
  if (status !== 0) process.stderr.write('bundle-bin: the bundle could not be compiled in advance\n');
}
