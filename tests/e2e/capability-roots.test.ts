import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import {
  DiscoveryCache,
  EnvironmentManager,
  projectSkills,
  resolveStepRoots,
  restoreSelection,
  type StepSnapshot,
  selectionMetadata,
  selectRoot,
  ThreadEnvironments,
  ThreadStore,
} from '../../src/environment/index.ts';
import { startServer, TcpProxy, type TestServer } from '../../src/testing/index.ts';

let folder: string;
let server: TestServer;
let manager: EnvironmentManager;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'capability-roots-'));
  server = await startServer();
  manager = new EnvironmentManager({ environments: [], default: null, includeLocal: true });
});
afterEach(async () => {
  await manager.dispose();
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

function put(path: string, content: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), content);
}

function rootIn(environmentId: string, id = 'plugin@1') {
  return selectRoot({ id, environmentId, path: folder });
}

test('local and remote discovery return the same capabilities', async () => {
  put('.codex-plugin/plugin.json', '{"apps":"./apps.json"}');
  put('apps.json', '{}');
  put('skills/one/SKILL.md', 'one');
  put('skills/two/SKILL.md', 'two\ufeff');
  writeFileSync(join(folder, '.mcp.json'), Buffer.from([0xff]));
  await manager.add('worker', { type: 'websocket', url: server.url }).waitUntilReady();
  const threadRoots = [rootIn('local'), { ...rootIn('worker'), id: 'plugin@2' }];
  const roots = await resolveStepRoots({ threadRoots, captured: new Map(), registry: manager });
  const [here, there] = await new DiscoveryCache().discover(roots);
  expect(here!.discovered!.skills).toHaveLength(2);
  expect(here!.discovered!.warnings).toHaveLength(1);
  expect(there!.discovered).toEqual({ ...here!.discovered, id: 'plugin@2' });
});

test('a selection survives a missing executor and replaced handles', async () => {
  put('SKILL.md', 'first');
  const proxy = await TcpProxy.open(server.url);
  onTestFinished(() => proxy.close());
  proxy.interrupt();
  const transport = { type: 'websocket', url: proxy.url } as const;
  const metadata = JSON.parse(JSON.stringify(selectionMetadata([rootIn('worker')])));
  const thread = new ThreadEnvironments(manager);
  thread.select([{ environmentId: 'worker', cwd: 'file:///' }]);
  const cache = new DiscoveryCache();
  const discover = async ({ captured }: StepSnapshot) => {
    const threadRoots = restoreSelection(metadata);
    return cache.discover(await resolveStepRoots({ threadRoots, captured, registry: manager }));
  };

  const first = manager.add('worker', transport);
  expect(await discover(await thread.beginTurn())).toEqual([]);

  proxy.restore();
  const turn = await thread.beginTurn();
  expect(await discover(turn)).toMatchObject([
    { root: rootIn('worker'), environment: { id: 'worker' }, error: null },
  ]);

  put('SKILL.md', 'second');
  const second = manager.add('worker', transport);
  await second.waitUntilReady();
  const [pinned] = await discover(turn);
  expect(pinned!.environment).toBe(first);
  const [later] = await discover(await thread.beginTurn());
  expect(later!.environment).toBe(second);
  expect(later!.discovered!.skills[0]!.instructions.contents).toBe('first');
  thread.dispose();
});

test('a resumed thread keeps its selection while its executor is down, and its skills appear with it', async () => {
  put('SKILL.md', '---\nname: notes\ndescription: takes notes\n---\n');
  const proxy = await TcpProxy.open(server.url);
  onTestFinished(() => proxy.close());
  proxy.interrupt();
  const threads = await ThreadStore.open(join(folder, 'threads'));
  await threads.create('t', { roots: [rootIn('worker')] });
  const [name] = readdirSync(join(folder, 'threads'));
  const firstRecord = () => readFileSync(join(folder, 'threads', name!), 'utf8').split('\n')[0];
  const written = firstRecord();
  manager.add('worker', { type: 'websocket', url: proxy.url });
  const thread = new ThreadEnvironments(manager);
  onTestFinished(() => thread.dispose());
  thread.select([{ environmentId: 'worker', cwd: 'file:///' }]);
  const cache = new DiscoveryCache();
  const step = async (threadId: string) => {
    const log = await threads.resume(threadId);
    const { captured } = await thread.beginTurn();
    const roots = await resolveStepRoots({ threadRoots: log.roots, captured, registry: manager });
    const discovered = await cache.discover(roots);
    await log.append({ roots: roots.length });
    const { skills } = await projectSkills({ selected: log.roots, discovered, cache });
    return skills.map(({ name, available }) => [name, available]);
  };
  for (let count = 0; count < 10; count++) expect(await step('t')).toEqual([]);
  expect(firstRecord()).toBe(written);

  proxy.restore();
  expect(await step('t')).toEqual([['notes', true]]);
  expect((await threads.resume('t')).turns).toHaveLength(11);
  await threads.fork('t', 'sub-agent', { lastTurns: 1 });
  expect(await step('sub-agent')).toEqual([['notes', true]]);
});

test('discovery sees an earlier write without waiting for its response', async () => {
  const client = await server.connect();
  const root = { id: 'r', path: rootIn('e').location.path };
  const texts = Array.from({ length: 30 }, (_, round) => `round ${round} ${'x'.repeat(round * 10_000)}`);
  const found = texts.map(async (text) => {
    const dataBase64 = Buffer.from(text).toString('base64');
    const written = client.call('fs/writeFile', { path: `${root.path}/SKILL.md`, dataBase64 });
    const { roots } = await client.call('capabilityRoots/discoverV1', { roots: [root] });
    await written;
    return roots[0]!.skills[0]?.instructions.contents;
  });
  expect(await Promise.all(found)).toEqual(texts);
  await client.close();
});
