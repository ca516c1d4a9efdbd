// Builds the bin: the CLI as one file, with a V8 code cache for the Node that builds. A start then reads three files instead of two
// hundred and compiles none, which is most of the start time. Native code stays outside and is loaded when the first program starts.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { bundleFileHelper } from './bundle-file-helper.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = join(root, 'dist/bin');

/** The websocket library loads these modules for TLS clients and for compression. A server uses neither, so they are loaded on use. */
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
  external: ['koffi', '@redis/client', 'yaml', '@xterm/headless', '@xterm/addon-unicode11'],
  supported: { 'dynamic-import': false },
  plugins: [deferredBuiltins],
  minify: true,
  legalComments: 'none',
  define: { 'import.meta.url': '__bundleUrl' },
  charset: 'ascii',
  banner: {
    js: "(function(exports,require,module,__filename,__dirname){const __bundleUrl=require('node:url').pathToFileURL(__filename).href;",
  },
  footer: { js: '})' },
  logLevel: 'warning',
});
const bundle = outputFiles[0].contents;
const name = `bundle-${createHash('sha256').update(bundle).digest('hex').slice(0, 16)}`;
const bin = join(folder, 'exec-server.cjs');
const newBin = `${bin}.${process.pid}.cjs`;
/**
 * Node takes --env-file and the like for itself, also behind the name of a program, unless `--` comes first. So a shell starts it. The
 * second line is a command for the shell, and a text with a comment for Node.
 */
const START = `#!/bin/sh\n':' //; exec node -- "$0" "$@"\n`;
const loader = readFileSync(join(root, 'scripts/bin-loader.cjs'), 'utf8').replaceAll('BUNDLE_NAME', name);

mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, `${name}.js`), bundle);
writeFileSync(newBin, START + loader);
chmodSync(newBin, 0o755);
writeCodeCache();
// The rename is atomic: a bin that is started during the build is the old one or the new one.
renameSync(newBin, bin);
for (const file of readdirSync(folder)) {
  if (file.startsWith('bundle-') && !file.startsWith(name)) rmSync(join(folder, file));
}

await bundleFileHelper({ source: join(root, 'dist'), extension: 'js', folder });

/** Without the code cache the bin works too, but starts some milliseconds later. Caches of the user are neither used nor written. */
function writeCodeCache() {
  const { NODE_DISABLE_COMPILE_CACHE, HOME, XDG_CACHE_HOME, ...env } = process.env;
  const script = join(root, 'scripts/compile-bundle.cjs');
  const { status } = spawnSync(process.execPath, [script, newBin], { env, stdio: ['ignore', 'ignore', 2] });
  if (status !== 0) process.stderr.write('bundle-bin: could not write the code cache\n');
}
