import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Environment } from '../../src/environment/environment.ts';
import { EnvironmentManager } from '../../src/environment/manager.ts';
import { type McpServer, openMcpTransport } from '../../src/environment/mcp/open-transport.ts';
import type { McpTransport } from '../../src/environment/mcp/transport.ts';
import { DEFAULT_CONFIG } from '../../src/server/config/config.ts';
import { serve } from '../../src/server/serve.ts';
import { processesWith } from '../support/machine.ts';
import { waitFor } from '../support/wait-for.ts';

const require = createRequire(import.meta.url);
const EVERYTHING = join(packageFolder('@modelcontextprotocol/server-everything'), 'dist/index.js');
const FILES = join(packageFolder('@modelcontextprotocol/server-filesystem'), 'dist/index.js');
const REPORT_PORT = fileURLToPath(new URL('../fixtures/report-port.mjs', import.meta.url));

const cleanUps: (() => unknown)[] = [];
let manager: EnvironmentManager;

beforeEach(async () => {
  const server = await serve({ ...DEFAULT_CONFIG, shutdownGracePeriodMs: 0 });
  cleanUps.push(() => server.close());
  manager = new EnvironmentManager({ environments: [], includeLocal: true, default: 'local' });
  cleanUps.push(() => manager.dispose());
  manager.add('remote', { type: 'websocket', url: server.url ?? '' });
});

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function connected(server: McpServer): Promise<{ client: Client; transport: McpTransport }> {
  const transport = await openMcpTransport(manager, server);
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(transport);
  cleanUps.push(() => client.close());
  return { client, transport };
}

/** The text of a tool's result. */
async function answerOf(client: Client, name: string, args: Record<string, unknown>): Promise<string> {
  const { content } = await client.callTool({ name, arguments: args });
  return (content as { text?: string }[]).map(({ text = '' }) => text).join('');
}

describe.each(['local', 'remote'])('in the %s environment', (environmentId) => {
  test('close during the start leaves no program', async () => {
    const marker = `mcp-${environmentId}-${process.pid}`;
    const args = ['-c', 'cat; true', marker];
    const transport = await openMcpTransport(manager, { environmentId, command: 'sh', args });
    const starting = transport.start();
    const aborted = expect(starting).rejects.toMatchObject({ kind: 'aborted' });
    await transport.close();
    await aborted;
    await expect(transport.start()).rejects.toThrow('started already');
    // A later start shows that the earlier start is over.
    const later = await openMcpTransport(manager, { environmentId, command: 'cat' });
    await later.start();
    await waitFor('the end of the program', () => processesWith(marker).length === 0);
    await later.close();
  });

  test('a program lists its tools and runs one', async () => {
    const { client, transport } = await connected({
      environmentId,
      command: process.execPath,
      args: [EVERYTHING, 'stdio'],
    });
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain('echo');
    expect(await answerOf(client, 'echo', { message: 'h\u00e9llo' })).toContain('h\u00e9llo');
    let closed = 0;
    const onclose = client.onclose;
    client.onclose = () => {
      closed++;
      onclose?.();
    };
    await client.close();
    expect(closed).toBe(1);
    await expect(transport.send({})).rejects.toThrow('not running');
    await waitFor('the end of the program', () => processesWith(EVERYTHING).length === 0);
  });

  test('a program reads the files of its environment', async () => {
    const folder = await realpath(await mkdtemp(join(tmpdir(), 'mcp-files-')));
    cleanUps.push(() => rm(folder, { recursive: true, force: true }));
    await writeFile(join(folder, 'note.txt'), 'from the executor');
    const heard: string[] = [];
    const { client } = await connected({
      environmentId,
      command: process.execPath,
      args: [FILES, folder],
      onStderr: (bytes) => heard.push(Buffer.from(bytes).toString()),
    });
    expect(await answerOf(client, 'read_text_file', { path: join(folder, 'note.txt') })).toBe(
      'from the executor',
    );
    expect(await answerOf(client, 'read_text_file', { path: '/etc/passwd' })).toContain('denied');
    expect(heard.join('')).toContain('Secure MCP Filesystem Server');
  });

  test('a server over HTTP lists its tools, runs them and reports progress', async () => {
    const { client, transport } = await connected({ environmentId, url: `${await webServerUrl()}/mcp` });
    expect(transport.sessionId).toBeTruthy();
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain('echo');
    expect(await answerOf(client, 'echo', { message: 'over http' })).toContain('over http');
    const [long] = tools.filter(({ name }) => /long-?running/i.test(name));
    const progress: number[] = [];
    await client.callTool({ name: long?.name ?? '', arguments: { duration: 0.4, steps: 4 } }, undefined, {
      onprogress: (report) => progress.push(report.progress),
    });
    expect(progress).toContain(2);
  });

  test('a server over HTTP handles concurrent calls', async () => {
    const { client } = await connected({ environmentId, url: `${await webServerUrl()}/mcp` });
    const numbers = Array.from({ length: 30 }, (_, index) => index);
    const answers = numbers.map((number) => answerOf(client, 'echo', { message: `<${number}>` }));
    for (const [number, answer] of (await Promise.all(answers)).entries())
      expect(answer).toContain(`<${number}>`);
  });
});

describe('an unavailable server', () => {
  test('has an unknown environment', async () => {
    const server = { environmentId: 'nowhere', command: 'x' };
    await expect(openMcpTransport(manager, server)).rejects.toMatchObject({ kind: 'config' });
  });

  test('is a missing program, or one that exits immediately', async () => {
    const missing = await openMcpTransport(manager, { environmentId: 'remote', command: '/no/such/program' });
    await expect(missing.start()).rejects.toThrow();
    const none = new Client({ name: 'test', version: '1' });
    const brief = await openMcpTransport(manager, { environmentId: 'remote', command: '/bin/true' });
    await expect(none.connect(brief)).rejects.toThrow();
  });
});

test('headers take values from variables of the executor', async () => {
  const environment = manager.get('remote') as Environment;
  const seen: unknown[] = [];
  const http = {
    ...environment.http,
    stream: (request: unknown) => {
      seen.push(request);
      return Promise.reject(new Error('seen'));
    },
  };
  const finder = { get: () => ({ ...environment, http }) as never };
  const server = { url: 'http://a.invalid/mcp', bearerTokenEnvVar: 'TOKEN', envHeaders: { 'X-Key': 'KEY' } };
  const transport = await openMcpTransport(finder, server);
  await expect(transport.send({})).rejects.toThrow();
  expect(seen).toMatchObject([
    {
      headers: expect.arrayContaining([
        { name: 'X-Key', value: '', valueEnvVar: 'KEY' },
        { name: 'authorization', value: 'Bearer ', valueEnvVar: 'TOKEN' },
      ]),
    },
  ]);
});

test('the example lists the tools and calls one', async () => {
  const example = fileURLToPath(new URL('../../examples/mcp-tools.mjs', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [example]);
  expect(stdout).toMatch(/^tools: .*\becho\b.*\nEcho: hello\n$/);
});

/** Starts an MCP server over HTTP on a free port. */
async function webServerUrl(): Promise<string> {
  const child = spawn(process.execPath, ['--import', REPORT_PORT, EVERYTHING, 'streamableHttp'], {
    env: { ...process.env, PORT: '0' },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  cleanUps.push(async () => {
    const gone = child.exitCode === null ? once(child, 'exit') : null;
    child.kill('SIGKILL');
    await gone;
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const port = /^port (\d+)$/.exec(line)?.[1];
    if (port !== undefined) return `http://127.0.0.1:${port}`;
  }
  throw new Error('the MCP server did not listen');
}

function packageFolder(name: string): string {
  return dirname(require.resolve(`${name}/package.json`));
}
