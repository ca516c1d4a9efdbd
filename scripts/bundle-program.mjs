import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * Bundles a program for Node into one CommonJS text. `options` of esbuild replace the ones here. Returns the text, and the paths of the
 * sources in it.
 */
export async function bundleProgram(entry, options) {
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: [entry],
    write: false,
    metafile: true,
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    minify: true,
    legalComments: 'none',
    define: { 'import.meta.url': '__bundleUrl' },
    banner: { js: BUNDLE_URL },
    logLevel: 'warning',
    ...options,
  });
  return { text: outputFiles[0].text, sources: Object.keys(metafile.inputs) };
}

/** The first statement of a bundle. CommonJS has no `import.meta.url`. */
export const BUNDLE_URL = "const __bundleUrl=require('node:url').pathToFileURL(__filename).href;";
