// Bundles the command line into one CommonJS file: starting it reads one file in place of two hundred, which is most of what a
// start costs. Native code stays outside and is loaded when the first program is started.
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

await build({
  entryPoints: [join(root, 'dist/cli/main.js')],
  outfile: join(root, 'dist/bin/exec-server.cjs'),
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'cjs',
  external: ['koffi'],
  minifySyntax: true,
  minifyWhitespace: true,
  keepNames: false,
  legalComments: 'none',
  define: { 'import.meta.url': '__bundleUrl', 'import.meta.dirname': '__dirname' },
  banner: { js: "const __bundleUrl=require('node:url').pathToFileURL(__filename).href;" },
  logLevel: 'warning',
});
