// Bundles the CLI into three texts: function expressions with the parameters of a CommonJS module. A command reads one of them, with its code
// cache. Commands that use a server need none of the server's code, and only `mcp` needs the MCP SDK.
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BUNDLE_URL, bundleProgram } from './bundle-program.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** The commands of each bundle. All others, and command lines without a command, are in the bundle `main`. */
export const BUNDLES = {
  client: [
    ...[
      'run',
      'shell',
      'attach',
      'ps',
      'logs',
      'wait',
      'kill',
      'rm',
      'recordings',
      'play',
      'export',
      'cp',
      'sync',
    ],
    ...['port-forward', 'env', 'use', 'proxy', 'completion', '__complete', 'help', 'version'],
  ],
  mcp: ['mcp'],
};

const CLIENT =
  /^\.\/(programs|recordings|files)\/|^\.\/(sync|port-forward|env|use|proxy|completion)-command\.js$/;
const MCP = /^\.\/mcp\//;
const DESCRIPTIONS = /^\.\/(specs\/|help\.js$|help-command\.js$)/;

/** Which modules that src/cli/commands.ts loads belong to each bundle. */
export const MODULES = {
  main: (path) => !CLIENT.test(path) && !MCP.test(path),
  client: (path) => CLIENT.test(path) || DESCRIPTIONS.test(path),
  mcp: (path) => MCP.test(path) || path === './specs/mcp-spec.js' || path === './help.js',
};

/** Returns the text of each bundle by its name, and the paths of the sources in them. `external` are packages that stay outside. */
export async function bundleCli({ external = [], plugins = [] } = {}) {
  const bundles = await Promise.all(
    Object.entries(MODULES).map(async ([name, isPart]) => ({
      name,
      ...(await bundle(isPart, external, plugins)),
    })),
  );
  return {
    texts: Object.fromEntries(bundles.map(({ name, text }) => [name, text])),
    sources: bundles.flatMap(({ sources }) => sources),
  };
}

function bundle(isPart, external, plugins) {
  return bundleProgram(join(root, 'dist/cli/main.js'), {
    external,
    supported: { 'dynamic-import': false },
    plugins: [...plugins, deferredBuiltins, withoutCommands(isPart), withoutSideEffects],
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
const withoutCommands = (isPart) => ({
  name: 'without-commands',
  setup(builder) {
    builder.onResolve({ filter: /^\.\// }, ({ path, importer, kind }) =>
      kind === 'dynamic-import' && importer.endsWith('/cli/commands.js') && !isPart(path)
        ? { path, namespace: 'left-out' }
        : undefined,
    );
    builder.onLoad({ filter: /.*/, namespace: 'left-out' }, () => ({ contents: 'export {};' }));
  },
});
