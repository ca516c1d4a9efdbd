// Builds the bin: the CLI as one file, with a V8 code cache for the Node that builds. A start then reads three files instead of two
// hundred and compiles none, which is most of the start time. Native code stays outside and is loaded when the first program starts.
// The command `mcp` is a bundle of its own: the MCP SDK would double what the other commands read and what the cache holds.
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

/** No module of this project does anything when it is loaded but the entry. So a module that only re-exports others loads none of them. */
const withoutSideEffects = {
  name: 'without-side-effects',
  setup(builder) {
    builder.onResolve({ filter: /^\.{1,2}\// }, async ({ path, pluginData, ...options }) => {
      if (pluginData === RESOLVING || !options.importer.startsWith(join(root, 'dist'))) return undefined;
      const resolved = await builder.resolve(path, { ...options, pluginData: RESOLVING });
      return { ...resolved, sideEffects: false };
    });
  },
};
const RESOLVING = Symbol('resolving');

/** Leaves modules out that `src/cli/commands.ts` loads for commands that the bundle does not run. */
const withoutCommands = (isLeftOut) => ({
  name: 'without-commands',
  setup(builder) {
    builder.onResolve({ filter: /^\.\// }, ({ path, importer, kind }) =>
      kind === 'dynamic-import' && importer.endsWith('/cli/commands.js') && isLeftOut(path)
        ? { path, namespace: 'left-out' }
        : undefined,
    );
    builder.onLoad({ filter: /.*/, namespace: 'left-out' }, () => ({ contents: 'export {};' }));
  },
});

/** Bundles the CLI, writes it and returns the name of the file. */
async function bundle(prefix, isLeftOut) {
  const { outputFiles } = await build({
    entryPoints: [join(root, 'dist/cli/main.js')],
    write: false,
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    external: ['koffi', '@redis/client', 'yaml', '@xterm/headless', '@xterm/addon-unicode11'],
    supported: { 'dynamic-import': false },
    plugins: [deferredBuiltins, withoutCommands(isLeftOut), withoutSideEffects],
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
  const { contents } = outputFiles[0];
  const name = `${prefix}-${createHash('sha256').update(contents).digest('hex').slice(0, 16)}`;
  writeFileSync(join(folder, `${name}.js`), contents);
  return name;
}

mkdirSync(folder, { recursive: true });
const isOfMcp = (path) => path.startsWith('./mcp/');
const [main, mcp] = await Promise.all([
  bundle('bundle', isOfMcp),
  bundle('bundle-mcp', (path) => !isOfMcp(path) && path !== './specs/mcp-spec.js' && path !== './help.js'),
]);
const bin = join(folder, 'exec-server.cjs');
const newBin = `${bin}.${process.pid}.cjs`;
/**
 * Node takes --env-file and the like for itself, also behind the name of a program, unless `--` comes first. So a shell starts it. The
 * second line is a command for the shell, and a text with a comment for Node.
 */
const START = `#!/bin/sh\n':' //; exec node -- "$0" "$@"\n`;
const loader = readFileSync(join(root, 'scripts/bin-loader.cjs'), 'utf8')
  .replaceAll('MAIN_BUNDLE', main)
  .replaceAll('MCP_BUNDLE', mcp);

writeFileSync(newBin, START + loader);
chmodSync(newBin, 0o755);
writeCodeCache('serve');
writeCodeCache('mcp');
// The rename is atomic: a bin that is started during the build is the old one or the new one.
renameSync(newBin, bin);
for (const file of readdirSync(folder)) {
  if (file.startsWith('bundle-') && !file.startsWith(main) && !file.startsWith(mcp))
    rmSync(join(folder, file));
}

await bundleFileHelper({ source: join(root, 'dist'), extension: 'js', folder });

/** Without the code cache the bin works too, but starts some milliseconds later. Caches of the user are neither used nor written. */
function writeCodeCache(command) {
  const { NODE_DISABLE_COMPILE_CACHE, HOME, XDG_CACHE_HOME, ...env } = process.env;
  const script = join(root, 'scripts/compile-bundle.cjs');
  const { status } = spawnSync(process.execPath, [script, newBin, command], {
    env,
    stdio: ['ignore', 'ignore', 2],
  });
  if (status !== 0) process.stderr.write('bundle-bin: could not write the code cache\n');
}
