import { randomBytes, webcrypto } from 'node:crypto';
import { builtinModules } from 'node:module';
import { fileURLToPath } from 'node:url';
import { createContext, runInContext } from 'node:vm';
import { build, type Metafile } from 'esbuild';
import { expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { startServer, TcpProxy } from '../../../src/testing/index.ts';
import { waitFor } from '../../support/wait-for.ts';

const entry = (name: string) => fileURLToPath(new URL(`../../../src/client/${name}`, import.meta.url));

async function bundle(name: string, platform: 'browser' | 'node') {
  const { metafile, outputFiles } = await build({
    entryPoints: [entry(name)],
    bundle: true,
    write: false,
    metafile: true,
    platform,
    format: 'iife',
    globalName: 'client',
    logLevel: 'silent',
  });
  return { metafile, code: outputFiles[0]!.text };
}

/** Returns the external modules of a bundle. */
function externals({ inputs }: Metafile): string[] {
  const imports = Object.values(inputs).flatMap((input) => input.imports);
  return [
    ...new Set(imports.filter(({ external }) => external).map(({ path }) => path.replace(/^node:/, ''))),
  ].sort();
}

test('the Node entry loads no module that starts programs, and those that access files only for a transfer', async () => {
  const { metafile } = await bundle('index.ts', 'node');
  const outside = externals(metafile);
  expect(outside).toContain('net');
  for (const name of ['child_process', 'koffi', 'worker_threads']) {
    expect(outside).not.toContain(name);
  }
  const transfer = /src\/client\/files\/transfer\//;
  for (const [path, { imports }] of Object.entries(metafile.inputs)) {
    if (transfer.test(path)) continue;
    expect(imports.filter((item) => /^(?:node:)?fs/.test(item.path))).toEqual([]);
    const loaded = imports.filter((item) => transfer.test(item.path) && item.kind !== 'dynamic-import');
    expect(loaded).toEqual([]);
  }
  expect(
    Object.keys(metafile.inputs).filter((path) => /src\/(process|files|server)\/|zod/.test(path)),
  ).toEqual([]);
});

test('only the stdio entry loads child_process', async () => {
  expect(externals((await bundle('stdio.ts', 'node')).metafile)).toContain('child_process');
});

test('the browser entry loads no Node module', async () => {
  const { metafile } = await bundle('browser.ts', 'browser');
  expect(externals(metafile).filter((name) => builtinModules.includes(name))).toEqual([]);
  expect(Object.keys(metafile.inputs).filter((path) => path.includes('node_modules'))).toEqual([]);
});

test('both entries export the same names', async () => {
  const [node, browser] = await Promise.all([
    import('../../../src/client/index.ts'),
    import('../../../src/client/browser.ts'),
  ]);
  expect(Object.keys(browser).sort()).toEqual(Object.keys(node).sort());
});

/** Evaluates code in a context that has the globals of a web page and none of Node. `code` may await. */
function page(bundled: string): (code: string) => Promise<unknown> {
  const globals = {
    WebSocket,
    URL,
    TextEncoder,
    TextDecoder,
    AbortController,
    AbortSignal,
    setTimeout,
    clearTimeout,
    setInterval,
    clearInterval,
    queueMicrotask,
    performance,
    atob,
    btoa,
    crypto: webcrypto,
  };
  const context = createContext({ ...globals });
  runInContext(bundled, context);
  return (code) => runInContext(`(async () => { ${code} })()`, context) as Promise<unknown>;
}

test('the browser bundle works without Node globals', async () => {
  const server = await startServer();
  const proxy = await TcpProxy.open(server.url);
  const { code } = await bundle('browser.ts', 'browser');
  const evaluate = page(code);
  const mark = randomBytes(8).toString('hex');
  const outcome = evaluate(`
    const { ExecServerClient, run } = client;
    globalThis.session = await ExecServerClient.connect({ url: '${proxy.url}', pingIntervalMs: 20, pongTimeoutMs: 1000 });
    const outcome = await run(session.backend, ['/bin/sh', '-c', 'cat; printf "\\\\377" >&2'], { input: '${mark} é' });
    return { ...outcome, text: outcome.text, stderr: [...outcome.stderr] };
  `);
  expect(await outcome).toMatchObject({ exitCode: 0, text: { stdout: `${mark} é` }, stderr: [255] });
  expect(
    await evaluate(`return (await session.files.list('/proc/self')).find(({ name }) => name === 'exe')`),
  ).toMatchObject({
    kind: 'file',
    isSymlink: true,
  });
  // The client notices a stalled connection. The server must notice it too before the client can replace it.
  proxy.setStalled(true);
  await waitFor('the loss', async () => (await evaluate('return session.state')) === 'recovering');
  proxy.drop();
  expect(await evaluate(`return (await session.call('environment/info', {})).shell.path`)).toMatch(/sh$/);
  await evaluate('await session.close()');
  await proxy.close();
  await server.close();
});

test('the browser client rejects options that a browser does not support', async () => {
  const { code } = await bundle('browser.ts', 'browser');
  const connect = (options: string) =>
    page(code)(
      `return client.ExecServerClient.connect(${options}).catch(({ kind, hint }) => ({ kind, hint }));`,
    );
  expect(await connect(`{ url: 'ws://127.0.0.1:1', authToken: 'x' }`)).toEqual({
    kind: 'config',
    hint: 'use a reverse proxy on the same origin that adds the Authorization header',
  });
  expect(await connect(`{ url: 'unix:///run/server.sock' }`)).toMatchObject({ kind: 'config' });
  expect(await connect(`{ url: 'ws://127.0.0.1:1' }`)).toMatchObject({ kind: 'connectFailed' });
});
