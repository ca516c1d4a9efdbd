// Builds the program of the sandboxed file helpers: two files that need only Node, because a sandbox may show nothing else.
import { chmodSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundleProgram } from './bundle-program.mjs';

/** Modules that few operations need. A helper that does not need them starts some milliseconds earlier. */
const DEFERRED = /^node:(?:child_process|crypto|worker_threads)$/;

const deferredBuiltins = {
  name: 'deferred-builtins',
  setup(builder) {
    builder.onResolve({ filter: DEFERRED }, ({ path, namespace }) =>
      namespace === 'deferred' ? { path, external: true } : { path, namespace: 'deferred' },
    );
    // The bundler copies the own properties of a module and keeps its prototype, so a lookup through the prototype happens on use.
    builder.onLoad({ filter: /.*/, namespace: 'deferred' }, ({ path }) => ({
      contents: `const get = (_, name) => (name === '__esModule' ? undefined : require('${path}')[name]);
        module.exports = Object.create(new Proxy({}, { get }));`,
    }));
  },
};

/**
 * Bundles the modules below `source`, which is src or dist with the given extension, into `folder`. Returns the paths of the sources in
 * them.
 */
export async function bundleFileHelper({ source, extension, folder }) {
  mkdirSync(folder, { recursive: true });
  const helper = join(source, `sandbox/files/inside/helper-program.${extension}`);
  const searchThread = join(source, `files/search/worker.${extension}`);
  const sources = [
    await writeBundle(helper, join(folder, 'file-helper.cjs'), [deferredBuiltins]),
    await writeBundle(searchThread, join(folder, 'file-search-thread.cjs'), []),
  ];
  return sources.flat();
}

async function writeBundle(entry, target, plugins) {
  const { text, sources } = await bundleProgram(entry, { plugins });
  // The rename is atomic: a helper that starts during the build gets the old file or the new one.
  const draft = `${target}.${process.pid}`;
  writeFileSync(draft, text);
  chmodSync(draft, 0o644);
  renameSync(draft, target);
  return sources;
}
