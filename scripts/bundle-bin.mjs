// Bundles the command line into one CommonJS file: starting it reads one file in place of two hundred, which is most of what a
// start costs. Native code stays outside and is loaded when the first program is started.
import { renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bin = join(root, 'dist/bin/exec-server.cjs');
const unfinished = `${bin}.${process.pid}`;

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

await build({
  entryPoints: [join(root, 'dist/cli/main.js')],
  outfile: unfinished,
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'cjs',
  external: ['koffi'],
  plugins: [deferredBuiltins],
  minify: true,
  legalComments: 'none',
  define: { 'import.meta.url': '__bundleUrl' },
  banner: { js: "const __bundleUrl=require('node:url').pathToFileURL(__filename).href;" },
  logLevel: 'warning',
});

// Who starts the bin meanwhile gets the old one or the new one, never half of it.
renameSync(unfinished, bin);
