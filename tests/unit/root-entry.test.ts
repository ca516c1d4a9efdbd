import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { expect, test } from 'vitest';
import * as root from '../../src/index.ts';

test('the root entry exports what programs import first, and no wire internals', () => {
  const names = Object.keys(root);
  for (const name of [
    ...['connect', 'ExecServerClient', 'run', 'wait', 'outputTextOf', 'stdioCommand', 'ClientError'],
    ...['runServer', 'serve', 'StartError', 'ConfigError', 'LocalEnvironment', 'EnvironmentManager'],
  ]) {
    expect(names).toContain(name);
  }
  expect(
    names.filter((name) => /^METHODS|^RpcError|Params$|encode|decode|Schema|^DEFAULT_/.test(name)),
  ).toEqual([]);
});

test('the root entry loads the server only when a server is started', async () => {
  const { metafile } = await build({
    entryPoints: [fileURLToPath(new URL('../../src/index.ts', import.meta.url))],
    bundle: true,
    splitting: true,
    write: false,
    metafile: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    outdir: '/out',
    logLevel: 'silent',
  });
  const { inputs } = metafile;
  const loaded = new Set<string>();
  const pending = ['src/index.ts'];
  for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
    if (loaded.has(path)) continue;
    loaded.add(path);
    for (const { path: next, kind } of inputs[path]?.imports ?? []) {
      if (kind === 'import-statement') pending.push(next);
    }
  }
  expect(loaded).toContain('src/client/client.ts');
  expect(inputs).toHaveProperty(['src/server/serve.ts']);
  expect(
    [...loaded].filter((path) =>
      /src\/(?:server\/(?:serve|handlers)|sandbox|files\/local|native\/libc)/.test(path),
    ),
  ).toEqual([]);
});

test('a server and a client of the root entry work together', async () => {
  const server = await root.runServer({ listen: 'ws://127.0.0.1:0' });
  const client = await root.connect(server.url!);
  expect((await client.run(['echo', 'hello'])).text.stdout).toBe('hello\n');
  await client[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await server.closed;
});
