import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ExecServerClient, RemoteFileSystem, run, type SandboxRequest } from '../../src/client/index.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const HELPERS = ['file-helper.cjs', 'file-search-thread.cjs'];

/** A folder that has the bundle and what it cannot contain, and nothing else of this package. */
let folder: string;
let workspace: string;
const servers: ChildProcess[] = [];
const clients: ExecServerClient[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'bundled-server-'));
  workspace = join(folder, 'workspace');
  for (const name of ['workspace', 'helpers', 'node_modules']) mkdirSync(join(folder, name));
  cpSync(join(root, 'node_modules/@koromix'), join(folder, 'node_modules/@koromix'), { recursive: true });
  for (const name of HELPERS) cpSync(join(root, 'dist/bin', name), join(folder, 'helpers', name));
  await build({
    stdin: {
      contents: `import { runServer } from './dist/server/index.js';
        const settings = JSON.parse(process.argv[2]);
        runServer({ listen: 'ws://127.0.0.1:0', ...settings }).then(
          ({ url }) => console.log(url),
          (error) => console.log(error.name, error.message),
        );`,
      resolveDir: root,
    },
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    external: ['@redis/client', '@modelcontextprotocol/sdk'],
    outfile: join(folder, 'server.cjs'),
    logOverride: { 'empty-import-meta': 'silent' },
  });
});
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
  for (const server of servers.splice(0)) {
    if (server.exitCode !== null) continue;
    const exited = once(server, 'exit');
    server.kill();
    await exited;
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Starts the bundle and returns the first line that it prints. */
async function start(settings: object, path = process.env.PATH): Promise<string> {
  const server = spawn(process.execPath, [join(folder, 'server.cjs'), JSON.stringify(settings)], {
    cwd: '/',
    env: { PATH: path, HOME: folder },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  servers.push(server);
  const [line] = (await once(createInterface(server.stdout!), 'line')) as [string];
  return line;
}

async function connect(settings: object, path?: string): Promise<ExecServerClient> {
  const client = await ExecServerClient.connect({ url: await start(settings, path) });
  clients.push(client);
  return client;
}

const uri = (name: string) => pathToFileURL(join(workspace, name)).href;

/** Everything is readable, and the workspace is writable. */
const sandbox = (): SandboxRequest => ({
  permissions: {
    type: 'managed',
    file_system: {
      type: 'restricted',
      entries: [
        { path: { type: 'special', value: { kind: 'root' } }, access: 'read' },
        { path: { type: 'path', path: uri('') }, access: 'write' },
      ],
    },
    network: 'restricted',
  },
  windowsSandboxLevel: 'disabled',
});

const program = (cmd: string, extra: object = {}) => ({
  processId: 'p',
  argv: ['/bin/sh', '-c', cmd],
  cwd: uri(''),
  env: { PATH: '/usr/bin:/bin' },
  tty: false,
  ...extra,
});

describe('a bundle of the server in a folder without the package', () => {
  test('runs programs, writes files in a sandbox, and searches', async () => {
    const client = await connect({ helperDirectory: join(folder, 'helpers') });
    const files = new RemoteFileSystem(client);
    const { text } = await run(client.backend, program('echo plain'));
    expect(text.stdout).toBe('plain\n');
    const sandboxed = await run(
      client.backend,
      program(`echo in > in; echo out > ${folder}/out`, { processId: 'q', sandbox: sandbox() }),
    );
    expect(sandboxed.exitCode).not.toBe(0);
    expect([existsSync(join(workspace, 'in')), existsSync(join(folder, 'out'))]).toEqual([true, false]);
    await files.writeFile(uri('written'), 'needle\n', { sandbox: sandbox() });
    expect(readFileSync(join(workspace, 'written'), 'utf8')).toBe('needle\n');
    const outside = files.writeFile(pathToFileURL(join(folder, 'out')).href, 'x', { sandbox: sandbox() });
    await expect(outside).rejects.toThrow();
    for (const options of [{}, { sandbox: sandbox() }]) {
      const { matches } = await files.search(uri(''), 'needle', options);
      expect(matches).toMatchObject([{ text: 'needle' }]);
    }
  });

  test('searches with its own engine where there is no ripgrep', async () => {
    writeFileSync(join(workspace, 'written'), 'needle\n');
    const helperDirectory = join(folder, 'helpers');
    const files = new RemoteFileSystem(await connect({ helperDirectory }, '/nowhere'));
    expect(await files.search(uri(''), 'needle')).toMatchObject({
      engine: 'builtin',
      matches: [{ text: 'needle' }],
    });
  });

  test('searches with the configured ripgrep', async () => {
    const ripgrepPath = join(folder, 'ripgrep');
    // Finds nothing, and leaves a file behind.
    const script = `#!/bin/sh\necho used > ${folder}/used\necho '{"type":"summary","data":{}}'\n`;
    writeFileSync(ripgrepPath, script, { mode: 0o755 });
    const files = new RemoteFileSystem(await connect({ ripgrepPath }));
    expect(await files.search(uri(''), 'needle')).toMatchObject({ engine: 'ripgrep', matches: [] });
    expect(existsSync(join(folder, 'used'))).toBe(true);
  });

  test('refuses sandboxes and terminals without the native library, and names it', async () => {
    const modules = join(folder, 'node_modules');
    renameSync(modules, `${modules}.away`);
    try {
      const client = await connect({});
      const { text } = await run(client.backend, program('echo plain'));
      expect(text.stdout).toBe('plain\n');
      for (const extra of [{ sandbox: sandbox() }, { tty: true }]) {
        const refused = client.backend.start(program('echo', { processId: 'q', ...extra }));
        await expect(refused).rejects.toThrow(
          /could not be loaded \(Cannot find module '@koromix\/koffi-linux-/,
        );
      }
    } finally {
      renameSync(`${modules}.away`, modules);
    }
  });

  test('reports what is missing: at the start when it is configured, else at the first use', async () => {
    expect(await start({ helperDirectory: '/nowhere' })).toMatch(
      /^StartError .*\/nowhere\/file-helper.cjs \(ENOENT\); set helperDirectory/,
    );
    const files = new RemoteFileSystem(await connect({}));
    await expect(files.writeFile(uri('never'), 'x', { sandbox: sandbox() })).rejects.toThrow(
      /file helper .* cannot be found; set helperDirectory/,
    );
    expect(existsSync(join(workspace, 'never'))).toBe(false);
  });
});
