import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { run } from '../../../src/client/process/run.ts';
import type { ConnectionState } from '../../../src/environment/environment.ts';
import { LocalEnvironment } from '../../../src/environment/local-environment.ts';
import { shell } from '../../support/programs.ts';

let environment: LocalEnvironment;
beforeEach(() => {
  environment = new LocalEnvironment();
});
afterEach(() => environment.dispose());

it('has one backend under two names', () => {
  expect(environment.getExecBackend()).toBe(environment.backend);
});

it('rejects text that is not valid Unicode, and running programs continue', async () => {
  const running = run(environment.backend, ['cat'], { input: 'unaffected' });
  await expect(run(environment.backend, ['echo', '\ud800'])).rejects.toMatchObject({
    kind: 'invalidInput',
    message: expect.stringContaining('a string in the params is not valid Unicode'),
  });
  expect((await running).text.stdout).toBe('unaffected');
});

it('is ready immediately', async () => {
  expect(environment).toMatchObject({ id: 'local', kind: 'local', startupFinished: true });
  expect(environment.readiness).toEqual({ ready: true });
  expect(environment.connection).toEqual({ connected: true, reason: null });
  expect(await environment.status()).toEqual({ status: 'ready', error: null });
  environment.startConnecting();
  environment.startForUse();
  await environment.waitUntilReady();
  await environment.restart();
  environment.hold()();
});

it('describes this machine', async () => {
  const info = await environment.info();
  expect(info.shell.path).toMatch(/^\/.*(?:bash|zsh|sh)$/);
  expect(info.cwd).toMatch(/^file:\/\/\//);
  expect(info.userHomeDir).toMatch(/^file:\/\/\//);
  expect(info.tempDir).toMatch(/^file:\/\/\//);
  expect(info.platformOs).toMatch(/^(?:linux|macos|windows)$/);
  expect(info.capabilities.processCloseStdin).toBe(true);
});

it('works after its working directory was removed', async () => {
  vi.spyOn(process, 'cwd').mockImplementation(() => {
    throw new Error('ENOENT: no such file or directory, uv_cwd');
  });
  onTestFinished(() => void vi.restoreAllMocks());
  expect(await environment.info()).toMatchObject({ cwd: null });
  expect((await run(environment.backend, ['pwd'])).text.stdout).toBe('/\n');
});

it('dispose kills the remaining processes and disconnects', async () => {
  const seen: ConnectionState[] = [];
  environment.watchConnection((state) => seen.push(state));
  const process = await environment.backend.start(shell('p', 'exec sleep 1000'));
  const events = collected(process.events());
  await environment.dispose();
  await environment.dispose();
  expect((await events).map(({ type }) => type)).toEqual(['exited', 'closed']);
  const reason = "environment 'local' was closed; open another one";
  expect(seen).toEqual([
    { connected: true, reason: null },
    { connected: false, reason },
  ]);
  expect(environment.readiness).toMatchObject({ ready: false, error: { kind: 'closed' } });
  expect(await environment.status()).toEqual({ status: 'disconnected', error: reason });
  await expect(environment.waitUntilReady()).rejects.toMatchObject({ kind: 'closed' });
});

it('discovery sees an earlier write that is not awaited', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'local-environment-'));
  const root = pathToFileURL(folder).href;
  const writing = environment.fileSystem.writeFile(`${root}/SKILL.md`, 'x'.repeat(500_000));
  const roots = await environment.discovery.discover([
    { id: 'here', path: root },
    { id: 'elsewhere', path: 'file:///C:/root' },
  ]);
  await writing;
  await rm(folder, { recursive: true });
  expect(roots.map(({ skills, error }) => [skills.length, error === null])).toEqual([
    [1, true],
    [0, false],
  ]);
});

it.each<[string, (environment: LocalEnvironment) => Promise<unknown>]>([
  ['start a program', ({ backend }) => backend.start(shell('p', 'true'))],
  ['read a file', ({ fileSystem }) => fileSystem.readFile('file:///etc/hosts')],
  [
    'read a file in blocks',
    ({ fileSystem }) => fileSystem.readFileStream('file:///etc/hosts')[Symbol.asyncIterator]().next(),
  ],
  ['watch files', ({ fileSystem }) => fileSystem.watch('file:///etc')],
  ['search files', ({ fileSystem }) => fileSystem.search('file:///etc', 'x')],
  ['look at capability roots', ({ discovery }) => discovery.discover([{ id: 'r', path: 'file:///etc' }])],
  ['describe itself', (local) => local.info()],
])('cannot %s after dispose', async (_, use) => {
  await environment.dispose();
  await expect(use(environment)).rejects.toMatchObject({ kind: 'closed' });
});

async function collected<T>(values: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const value of values) all.push(value);
  return all;
}
