// Makes the program of the helpers that work on files in sandboxes: two files that need nothing but Node, because a sandbox may show
// nothing else.
import { chmodSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

/** Modules that few operations need; a helper that is not asked for those starts some milliseconds earlier. */
const DEFERRED = /^node:(?:child_process|crypto|worker_threads)$/;

const deferredBuiltins = {
  name: 'deferred-builtins',
  setup(builder) {
    builder.onResolve({ filter: DEFERRED }, ({ path, namespace }) =>
      namespace === 'deferred' ? { path, external: true } : { path, namespace: 'deferred' },
    );
    // The bundler copies the properties of a module and keeps its prototype: what is only there is looked up when it is used.
    builder.onLoad({ filter: /.*/, namespace: 'deferred' }, ({ path }) => ({
      contents: `const get = (_, name) => (name === '__esModule' ? undefined : require('${path}')[name]);
        module.exports = Object.create(new Proxy({}, { get }));`,
    }));
  },
};

/** Bundles the modules below `source`, which is src or dist with the given extension, into `folder`. */
export async function bundleFileHelper({ source, extension, folder }) {
  mkdirSync(folder, { recursive: true });
  const helper = join(source, `sandbox/files/inside/helper-program.${extension}`);
  const searchThread = join(source, `files/search/worker.${extension}`);
  await bundle(helper, join(folder, 'file-helper.cjs'), [deferredBuiltins]);
  await bundle(searchThread, join(folder, 'file-search-thread.cjs'), []);
}

async function bundle(entry, target, plugins) {
  const { outputFiles } = await build({
    entryPoints: [entry],
    write: false,
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    plugins,
    minify: true,
    legalComments: 'none',
    define: { 'import.meta.url': '__bundleUrl' },
    banner: { js: "const __bundleUrl=require('node:url').pathToFileURL(__filename).href;" },
    logLevel: 'warning',
  });
  // Who starts it meanwhile gets the old one or the new one, never half of it.
  const draft = `${target}.${process.pid}`;
  writeFileSync(draft, outputFiles[0].contents);
  chmodSync(draft, 0o644);
  renameSync(draft, target);
}
