import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { run } from '../../src/client/process/run.ts';
import {
  configuredEnvironments,
  EnvironmentManager,
  ThreadEnvironments,
} from '../../src/environment/index.ts';
import { startServerProcess } from '../../src/testing/index.ts';
import { childrenOf, isAlive } from '../support/machine.ts';
import { waitFor } from '../support/wait-for.ts';

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));

let folder: string;
let cleanUps: (() => unknown)[];
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'required-skills-')));
  cleanUps = [() => rmSync(folder, { recursive: true, force: true })];
  mkdirSync(join(folder, 'codex'));
  mkdirSync(join(folder, 'home'));
});
afterEach(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp();
});

function put(path: string, content: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), content);
}

/** The variables of an executor with a home of its own. */
function homes(): Record<string, string> {
  return { HOME: join(folder, 'home'), CODEX_HOME: join(folder, 'codex') };
}

/** Opens the environments of a configuration file. */
async function manage(toml: string): Promise<EnvironmentManager> {
  put('config/environments.toml', toml);
  const provider = configuredEnvironments({ env: {}, codexHome: join(folder, 'config') });
  const manager = await EnvironmentManager.open(provider);
  cleanUps.push(() => manager.dispose());
  return manager;
}

test('an environment without a required skill is not ready, and becomes ready when it is installed', async () => {
  const server = await startServerProcess(['--listen', 'ws://127.0.0.1:0'], homes());
  cleanUps.push(() => server.close());
  put('codex/skills/draft/SKILL.md', 'no front matter');
  const manager = await manage(`
    [[environments]]
    id = "gpu"
    url = "${server.url}"
    skills = { required = ["cuda", "notes", "tools:profile"] }`);
  const environment = manager.require('gpu');
  expect(environment.requiredSkills).toEqual(['cuda', 'notes', 'tools:profile']);
  const codexHome = pathToFileURL(join(folder, 'codex'));
  const home = pathToFileURL(join(folder, 'home'));
  const message =
    `environment 'gpu' lacks the required skills 'cuda', 'notes', 'tools:profile', which its executor looks for in ` +
    `${codexHome}/skills, ${home}/.agents/skills and the plugins in ${codexHome}/plugins/cache; ` +
    `skill ${codexHome}/skills/draft/SKILL.md is skipped: it does not start with front matter between lines of ---; ` +
    `install what is missing, or remove it from 'skills'`;
  await expect(environment.waitUntilReady()).rejects.toMatchObject({
    kind: 'notFound',
    message,
    retryable: true,
  });
  expect(environment.readiness).toMatchObject({ ready: false, error: { message } });
  expect(await manager.status('gpu')).toEqual({ status: 'disconnected', error: message });
  await expect(run(environment.backend, ['true'])).rejects.toMatchObject({ kind: 'notFound' });
  const thread = new ThreadEnvironments(manager);
  cleanUps.push(() => thread.dispose());
  thread.select([{ environmentId: 'gpu', cwd: 'file:///' }]);
  const step = await thread.beginTurn();
  expect(step.states).toEqual([{ environmentId: 'gpu', state: 'unavailable' }]);
  await expect(step.waitForEnvironment('gpu')).rejects.toThrow("lacks the required skills 'cuda'");

  put('codex/skills/cuda/SKILL.md', '---\nname: cuda\ndescription: d\n---\n');
  put('home/.agents/skills/any/SKILL.md', '---\nname: notes\ndescription: d\n---\n');
  const plugin = 'codex/plugins/cache/market/tools/1.0.0';
  put(`${plugin}/.codex-plugin/plugin.json`, '{"name":"tools"}');
  await expect(environment.waitUntilReady()).rejects.toThrow("lacks the required skill 'tools:profile',");
  put(`${plugin}/skills/profile/SKILL.md`, '---\ndescription: d\n---\n');
  await environment.waitUntilReady();
  expect(await manager.status('gpu')).toEqual({ status: 'ready', error: null });
  expect((await thread.beginTurn()).states).toEqual([{ environmentId: 'gpu', state: 'ready' }]);
});

test('a rejected executor on stdio ends', async () => {
  const manager = await manage(`
    [[environments]]
    id = "box"
    program = "${process.execPath}"
    args = ["${BIN}", "--listen", "stdio"]
    env = { HOME = "${homes().HOME}", CODEX_HOME = "${homes().CODEX_HOME}" }
    skills = { required = ["cuda"] }`);
  const before = childrenOf(process.pid);
  const environment = manager.require('box');
  await expect(environment.waitUntilReady()).rejects.toMatchObject({ kind: 'notFound' });
  await waitFor('the end of the executor', () =>
    childrenOf(process.pid).every((pid) => before.includes(pid) || !isAlive(pid)),
  );
  put('codex/skills/cuda/SKILL.md', '---\nname: cuda\ndescription: d\n---\n');
  await environment.restart();
  expect(environment.readiness).toEqual({ ready: true });
});
