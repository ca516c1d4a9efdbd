// Bundles the CLI into one text: a function expression with the parameters of a CommonJS module. The command `mcp` is a bundle of its own: the
// MCP SDK would double what the other commands read and what the code cache holds.
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BUNDLE_URL, bundleProgram } from './bundle-program.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * Bundles all commands but `mcp`, and `mcp` alone. Returns the two texts, and the paths of the sources in them. `external` are packages that
 * stay outside.
 */
export async function bundleCli({ external = [], plugins = [] } = {}) {
  const [main, mcp] = await Promise.all([
    bundle(isOfMcp, external, plugins),
    bundle(
      (path) => !isOfMcp(path) && path !== './specs/mcp-spec.js' && path !== './help.js',
      external,
      plugins,
    ),
  ]);
  return { main: main.text, mcp: mcp.text, sources: [...main.sources, ...mcp.sources] };
}

const isOfMcp = (path) => path.startsWith('./mcp/');

function bundle(isLeftOut, external, plugins) {
  return bundleProgram(join(root, 'dist/cli/main.js'), {
    external,
    supported: { 'dynamic-import': false },
    plugins: [...plugins, deferredBuiltins, withoutCommands(isLeftOut), withoutSideEffects],
    charset: 'ascii',
    banner: { js: `(function(exports,require,module,__filename,__dirname){${BUNDLE_URL}` },
    footer: { js: '})' },
  });
}

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
