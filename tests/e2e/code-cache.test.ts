import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startServerProcess } from '../../src/testing/index.ts';
import { waitFor } from '../support/wait-for.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const VERSION = `exec-server ${JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version}\n`;
const IS_ROOT = process.getuid?.() === 0;
const NOBODY = 65534;

/** An installed program, without the cache that the build writes. */
let app: string;
let bin: string;
let home: string;
let folder: string;

beforeAll(() => {
  app = mkdtempSync(join(tmpdir(), 'code-cache-'));
  mkdirSync(join(app, 'dist/bin'), { recursive: true });
  for (const name of readdirSync(join(ROOT, 'dist/bin')).filter((file) => !file.endsWith('.cache')))
    copyFileSync(join(ROOT, 'dist/bin', name), join(app, 'dist/bin', name));
  copyFileSync(join(ROOT, 'package.json'), join(app, 'package.json'));
  symlinkSync(join(ROOT, 'node_modules'), join(app, 'node_modules'));
  bin = join(app, 'dist/bin/exec-server.cjs');
});

afterAll(() => rmSync(app, { recursive: true }));

beforeEach(() => {
  home = mkdtempSync(join(app, 'home-'));
  folder = join(home, '.cache/exec-server/code');
});

const caches = () => (existsSync(folder) ? readdirSync(folder) : []);
const isWritten = () => caches().some((name) => name.endsWith('.cache'));

async function serve(env: Readonly<Record<string, string>> = { HOME: home }) {
  const server = await startServerProcess([], { XDG_CACHE_HOME: '', ...env }, bin);
  await (await server.connect()).close();
  return server;
}

/** Serves a client, and waits until the cache is written. */
async function writtenCache(): Promise<string> {
  const server = await serve();
  await waitFor('the code cache', isWritten);
  await server.close();
  expect(server.stderr()).toBe('');
  return join(folder, caches()[0]!);
}

function version(env: NodeJS.ProcessEnv = { HOME: home }): string {
  const { stdout, stderr } = spawnSync(process.execPath, [bin, '--version'], { env, encoding: 'utf8' });
  expect(stderr).toBe('');
  return stdout;
}

/** The code cache of another program. V8 accepts it for the bundle, because it compares only the length of the source. */
function plant(file: string, name = 'main'): void {
  const bundle = readdirSync(dirname(bin)).find((other) =>
    new RegExp(`^bundle-${name}-\\w+\\.js$`).test(other),
  )!;
  const { length } = readFileSync(join(dirname(bin), bundle), 'latin1');
  const script = `
    const source = '(function(){process.stdout.write("planted\\\\n")'.padEnd(${length} - 2) + '})';
    const script = new (require('node:vm').Script)(source);
    script.runInThisContext()();
    require('node:fs').writeFileSync(${JSON.stringify(file)}, script.createCachedData());`;
  expect(execFileSync(process.execPath, ['-e', script], { encoding: 'utf8' })).toBe('planted\n');
}

test('the bundles are ASCII, because the loader reads one byte per character', () => {
  const bundles = readdirSync(dirname(bin)).filter((name) => /^bundle-.*\.js$/.test(name));
  expect(bundles).toHaveLength(3);
  for (const bundle of bundles) {
    expect(readFileSync(join(dirname(bin), bundle)).every((byte) => byte < 0x80)).toBe(true);
  }
});

test('the first session writes a cache that only this user can read, and the next start uses it', async () => {
  expect(version()).toBe(VERSION);
  expect(caches()).toEqual([]);
  const cache = await writtenCache();
  expect(statSync(cache).mode & 0o777).toBe(0o600);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(version()).toBe(VERSION);
  plant(cache);
  expect(version()).toBe('planted\n');
  expect(version({ HOME: home, NODE_DISABLE_COMPILE_CACHE: '1' })).toBe(VERSION);
});

test('the first command that uses a server writes a cache of its own when it exits', async () => {
  const server = await startServerProcess();
  const { PATH } = process.env;
  const command = (...args: string[]) =>
    spawnSync(process.execPath, [bin, ...args], { env: { PATH, HOME: home }, encoding: 'utf8' });
  expect(command('env', 'ls')).toMatchObject({ status: 0, stderr: '' });
  expect(caches()).toEqual([]);
  const program = ['run', '-E', server.url, '-n', '--', 'echo', 'hello'];
  const first = command(...program);
  expect(first).toMatchObject({ status: 0, stdout: 'hello\n', stderr: '' });
  expect(caches()).toEqual([expect.stringMatching(/^bundle-client-.*\.cache$/)]);
  const cache = join(folder, caches()[0]!);
  const { mtimeMs, mode } = statSync(cache);
  expect(mode & 0o777).toBe(0o600);
  expect(command(...program)).toMatchObject({ status: 0, stdout: 'hello\n', stderr: '' });
  expect(statSync(cache).mtimeMs).toBe(mtimeMs);
  plant(cache, 'client');
  expect(command('version').stdout).toBe('planted\n');
  await server.close();
});

describe('a cache', () => {
  let name: string;
  let original: Buffer;
  let planted: Buffer;
  let cache: string;

  beforeAll(async () => {
    home = mkdtempSync(join(app, 'home-'));
    folder = join(home, '.cache/exec-server/code');
    cache = await writtenCache();
    name = basename(cache);
    original = readFileSync(cache);
    plant(cache);
    planted = readFileSync(cache);
  });

  beforeEach(() => {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    cache = join(folder, name);
    writeFileSync(cache, planted, { mode: 0o600 });
  });

  test('of a start with other flags is not used', () => {
    expect(version({ HOME: home, NODE_OPTIONS: '--stack-trace-limit=5' })).toBe(VERSION);
  });

  test('that is damaged is not used, and written again', async () => {
    writeFileSync(cache, original.subarray(0, 1000));
    expect(version()).toBe(VERSION);
    const server = await serve();
    await waitFor('the code cache', () => statSync(cache).size > 1000);
    await server.close();
    expect(version()).toBe(VERSION);
  });

  test.each<[string, () => void]>([
    ['in a file that others can write', () => chmodSync(cache, 0o622)],
    ['in a folder that others can write', () => chmodSync(folder, 0o777)],
    ['behind a link', () => [renameSync(cache, `${cache}.moved`), symlinkSync(`${cache}.moved`, cache)]],
    ['below a folder that everyone can write', () => chmodSync(join(home, '.cache'), 0o1777)],
    ...(IS_ROOT
      ? ([
          ['in a file of another user', () => chownSync(cache, NOBODY, NOBODY)],
          ['in a folder of another user', () => chownSync(folder, NOBODY, NOBODY)],
          ['in the home of another user', () => chownSync(home, NOBODY, NOBODY)],
        ] as [string, () => void][])
      : []),
  ])('%s is not used', (_, change) => {
    expect(version()).toBe('planted\n');
    change();
    expect(version()).toBe(VERSION);
  });
});

test('is written once by several servers that start together, and old ones are removed', async () => {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (let index = 0; index < 10; index++) {
    const old = join(folder, `bundle-${index}-old.cache`);
    writeFileSync(old, '');
    utimesSync(old, index, index);
  }
  const servers = await Promise.all([serve(), serve(), serve()]);
  await waitFor(
    'the clean-up',
    () => caches().length === 9 && caches().every((name) => name.endsWith('.cache')),
  );
  await Promise.all(servers.map((server) => server.close()));
  // A server that was closed while it wrote leaves an unfinished file, which a later one removes.
  expect(caches().filter((name) => /^(?!.*-old).*\.cache$/.test(name))).toHaveLength(1);
  expect(caches()).toContain('bundle-9-old.cache');
  expect(version()).toBe(VERSION);
});

test('is not written without a folder of this user', async () => {
  const others = [
    { HOME: '' },
    { HOME: join(home, 'missing') },
    { HOME: home, NODE_DISABLE_COMPILE_CACHE: '1' },
  ];
  const foreign = join(home, 'foreign');
  mkdirSync(foreign);
  if (IS_ROOT) {
    chownSync(foreign, NOBODY, NOBODY);
    others.push({ HOME: foreign });
  }
  const servers = await Promise.all(others.map(serve));
  // This one got its client last. When it has written, the others would have written too.
  const good = mkdtempSync(join(app, 'home-'));
  servers.push(await serve({ HOME: good }));
  await waitFor('the code cache', () => existsSync(join(good, '.cache/exec-server/code')));
  await Promise.all(servers.map((server) => server.close()));
  expect(readdirSync(home)).toEqual(['foreign']);
  expect(readdirSync(foreign)).toEqual([]);
});
