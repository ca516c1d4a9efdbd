import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createHome, ensureReference } from '../../scripts/reference.mjs';
import { run } from '../../src/client/process/run.ts';
import { relayTransport } from '../../src/environment/config/relay-transport.ts';
import { EnvironmentManager } from '../../src/environment/manager.ts';
import { openMcpTransport } from '../../src/environment/mcp/open-transport.ts';
import { connectRemote, RelaySource } from '../../src/relay/harness/relay-source.ts';
import { MAX_BUNDLE_RETRIES } from '../../src/relay/limits.ts';
import { shell } from '../support/programs.ts';
import { type RunningProgram, startBin, startProgram } from '../support/relay.ts';
import { removeFolder } from '../support/remove-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { AgentsApi } from './agents-api.ts';
import { CodexRun } from './codex-client.ts';

const require = createRequire(import.meta.url);
/** Long, because each start and each recovery may happen on a busy machine. */
const START_LIMIT_MS = 60_000;
vi.setConfig({ testTimeout: 4 * START_LIMIT_MS });

const binary: string | Error = await ensureReference().catch((error: Error) => error);

async function openApi(): Promise<AgentsApi> {
  const api = await AgentsApi.open();
  onTestFinished(() => expect(api.violations).toEqual([]));
  return api;
}

function newFolder(): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'agents-api-')));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

/** The reference too, to show that the mock behaves as codex expects. */
const KINDS = binary instanceof Error ? (['exec-server'] as const) : (['exec-server', 'codex'] as const);
type Kind = (typeof KINDS)[number];

/** Starts an executor as the Agents API documents it. */
function startExecutor(
  api: AgentsApi,
  { kind = 'exec-server' as Kind, key = api.environmentKey, cwd = newFolder() } = {},
): RunningProgram {
  const args = ['--remote', api.remoteUrl, '--environment-id', api.environmentId];
  const executor =
    kind === 'codex' ? startCodex(args, key, cwd) : startBin(args, { CODEX_API_KEY: key }, cwd);
  onTestFinished(() => executor.stop());
  return executor;
}

function startCodex(args: readonly string[], key: string, cwd: string): RunningProgram {
  const home = createHome();
  return startProgram(binary as string, ['exec-server', ...args], {
    env: { HOME: home, CODEX_HOME: home, CODEX_API_KEY: key },
    cwd,
    onExit: () => removeFolder(home),
  });
}

async function untilConnected(api: AgentsApi): Promise<void> {
  await waitFor('the executor', () => api.connected, START_LIMIT_MS);
}

async function connect(api: AgentsApi) {
  await untilConnected(api);
  // On a busy machine a recovery takes longer than usual.
  const limits = { recoveryWindowMs: START_LIMIT_MS, detachedSessionTtlMs: START_LIMIT_MS };
  const client = await connectRemote({ ...api.harness, ...limits });
  onTestFinished(() => client.close());
  return client;
}

test.each(KINDS)('%s serves programs and files in the workspace, and discovers skills', async (kind) => {
  const api = await openApi();
  const workspace = newFolder();
  const skill = join(workspace, 'skills', 'greet');
  mkdirSync(skill, { recursive: true });
  writeFileSync(join(skill, 'SKILL.md'), '---\nname: greet\ndescription: Says hello.\n---\nSay hello.\n');
  startExecutor(api, { kind, cwd: workspace });
  const client = await connect(api);
  const url = pathToFileURL(workspace).href;

  expect((await client.call('environment/info', null)).cwd).toBe(url);
  const printed = await run(client.backend, ['sh', '-c', 'pwd; env'], { cwd: url });
  expect(printed.text.stdout).toContain(`${workspace}\n`);
  // Programs of codex see the key.
  if (kind === 'exec-server') expect(printed.text.stdout).not.toContain(api.environmentKey);

  const large = Buffer.alloc(300_000, 'x').toString('base64');
  await client.call('fs/writeFile', { path: `${url}/file`, dataBase64: large });
  expect((await client.call('fs/readFile', { path: `${url}/file` })).dataBase64).toBe(large);

  const { roots } = await client.call('capabilityRoots/discoverV1', {
    roots: [{ id: 'workspace', path: url, sandbox: null }],
  });
  expect(JSON.stringify(roots)).toContain('skills/greet/SKILL.md');
});

test('runs an MCP server as a program', async () => {
  const api = await openApi();
  startExecutor(api);
  await untilConnected(api);
  const { registryUrl, environmentId, auth: authToken } = api.harness;
  const transport = relayTransport({ registryUrl, environmentId, authToken, accountId: null });
  const manager = new EnvironmentManager({
    environments: [{ id: 'agents', transport }],
    default: 'agents',
    includeLocal: false,
  });
  onTestFinished(() => manager.dispose());
  const everything = dirname(require.resolve('@modelcontextprotocol/server-everything/package.json'));
  const mcp = await openMcpTransport(manager, {
    environmentId: 'agents',
    command: process.execPath,
    args: [join(everything, 'dist/index.js'), 'stdio'],
  });
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(mcp);
  onTestFinished(() => client.close());
  const { content } = await client.callTool({ name: 'echo', arguments: { message: 'hello' } });
  expect(JSON.stringify(content)).toContain('hello');
});

test.each(KINDS)('%s exits with the reason when the key lacks the scope', async (kind) => {
  const api = await openApi();
  const executor = startExecutor(api, { kind, key: api.projectKey });
  expect(await executor.exited).toBe(1);
  expect(executor.stderr()).toContain('403');
  expect(executor.stderr()).toContain('missing required scope api.agents.environments.connect');
  expect(executor.stderr()).not.toContain(api.projectKey);
});

test.each(KINDS)('a disconnect of %s in the middle of a turn loses nothing', async (kind) => {
  const api = await openApi();
  startExecutor(api, { kind });
  const client = await connect(api);
  const process = await client.backend.start({
    ...shell('p', 'for line in 1 2 3; do read text; echo $text; done'),
    pipeStdin: true,
  });
  await process.write('before\n');
  const states: string[] = [];
  client.onStateChange((state) => states.push(state));

  api.disconnect();
  await waitFor('the harness to recover', () => states.includes('connected'), START_LIMIT_MS);
  await process.write('between\n');
  // The same URL, and no other registration.
  expect(api.executorUrls).toEqual([api.executorUrls[0], api.executorUrls[0]]);
  expect(api.registeredKeys).toHaveLength(1);

  states.length = 0;
  api.expireUrls();
  api.disconnect();
  await waitFor('the harness to recover', () => states.includes('connected'), START_LIMIT_MS);
  await process.write('after\n');
  // Another URL, from a registration with the same key.
  expect(new Set(api.executorUrls).size).toBe(2);
  const [first, second] = api.registeredKeys;
  expect(api.registeredKeys).toHaveLength(2);
  expect(first!.equals(second!)).toBe(true);

  let output = '';
  for await (const event of process.events()) if (event.type === 'output') output += Buffer.from(event.bytes);
  expect(output).toBe('before\nbetween\nafter\n');
});

test('another process continues the environment with the same id and URL', async () => {
  const api = await openApi();
  const first = startExecutor(api);
  await untilConnected(api);
  await first.stop();
  await waitFor('the end of the connection', () => !api.connected);
  startExecutor(api);
  const client = await connect(api);
  expect((await run(client.backend, ['echo', 'again'])).text.stdout).toBe('again\n');
  const [before, after] = api.registeredKeys;
  expect(before!.equals(after!)).toBe(false);
});

test('a harness retries while the environment is offline', async () => {
  const api = await openApi();
  const source = new RelaySource(api.harness, { sleep: async () => {} });
  await expect(source.open(new AbortController().signal)).rejects.toMatchObject({
    retryable: true,
    message: expect.stringContaining('environment_offline'),
  });
  expect(api.offlineAnswers).toBe(1 + MAX_BUNDLE_RETRIES);
  startExecutor(api);
  await (await connect(api)).close();
});

describe.skipIf(binary instanceof Error)('with codex as the harness', () => {
  test('a turn runs commands, also over a disconnect', async () => {
    const api = await openApi();
    startExecutor(api);
    await untilConnected(api);
    const { registryUrl, environmentId, auth: authToken } = api.harness;
    const codex = await CodexRun.start({
      binary: binary as string,
      url: '',
      relay: { registryUrl, environmentId, authToken },
    });
    onTestFinished(() => codex.close());
    expect((await codex.exec('echo in the sandbox')).text).toContain('in the sandbox');
    // Codex does not repeat a start whose answer is lost, so that the start is over before the disconnect.
    const started = await codex.exec('echo one; until [ -e go ]; do sleep 0.02; done; echo two', {
      yield_time_ms: 250,
    });
    api.disconnect();
    codex.touch('go');
    const ended = await codex.writeStdin(started.sessionId, '', 20_000);
    expect(started.output + ended.output).toBe('one\ntwo\n');
    const { commands } = await codex.finish();
    expect(commands).toMatchObject([{ exit_code: 0 }, { exit_code: 0 }]);
  });
});
