import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import * as z from 'zod/mini';
import { METHODS, type Method } from '../../src/protocol/registry.ts';
import { startServer, type TestClient, type TestServer } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';
import { type WebServer, webServer } from '../support/web-servers.ts';

const KIB = 1024;
const LIMIT = 64 * KIB;
const BODY_BYTES = 100 * KIB;

let folder: string;
let server: TestServer;
let client: TestClient;
let web: WebServer;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'answer-limits-'));
  for (let index = 0; index < 3_000; index++) write(`many/${'x'.repeat(60)}${index}`, '');
  write('one-line', 'y'.repeat(80_000));
  write('large', 'line\n'.repeat(200 * KIB));
  write('root/SKILL.md', `---\nname: s\ndescription: d\n---\n${'x'.repeat(BODY_BYTES)}`);
  write('home/skills/s/SKILL.md', `---\nname: s\ndescription: ${'d'.repeat(1_000)}\n---\n`);
  write('home/config.toml', `text = "${'x'.repeat(BODY_BYTES)}"\n`);
  vi.stubEnv('CODEX_HOME', join(folder, 'home'));
  vi.stubEnv('XDG_STATE_HOME', join(folder, 'state'));
  web = await webServer((_request, response) => response.end(Buffer.alloc(BODY_BYTES)));
  server = await startServer({ maxResponseBytes: LIMIT, maxHttpBodyBytes: 2 * BODY_BYTES });
  client = await server.connect();
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await client.close();
  await server.close();
  await web.close();
  rmSync(folder, { recursive: true, force: true });
});

function write(path: string, content: string): void {
  mkdirSync(join(folder, path, '..'), { recursive: true });
  writeFileSync(join(folder, path), content);
}

const uri = (path: string) => pathToFileURL(join(folder, path)).href;
const walk = { maxDepth: 1, maxDirectories: 10, maxEntries: 50_000, followDirectorySymlinks: false };

/** The result, whose size is within the limit. */
async function result<M extends Method>(method: M, params: Parameters<TestClient['call']>[1]) {
  const answer = await client.request(method, params);
  expect(JSON.stringify(answer).length).toBeLessThanOrEqual(LIMIT);
  return answer as z.output<(typeof METHODS)[M]['result']>;
}

async function refused(method: Method, params: unknown): Promise<void> {
  await expect(client.request(method, params)).rejects.toMatchObject({
    code: -32001,
    message: expect.stringContaining('maxResponseBytes'),
  });
}

/** Every method with a result that can grow, and a request with a result above the limit. */
const ANSWERS: Readonly<Partial<Record<Method, () => Promise<void>>>> = {
  'process/read': async () => {
    await client.call('process/start', shell('read', 'seq 50000'));
    await client.closedProcess('read');
    const page = await result('process/read', { processId: 'read' });
    expect(page.closed).toBe(false);
    expect(page.chunks.length).toBeGreaterThan(0);
  },
  'process/snapshot': async () => {
    await client.call('process/start', shell('snapshot', 'seq 100000; seq 100000 >&2'));
    await client.closedProcess('snapshot');
    const { stdout, stderr, truncated, omittedBytes, headBytes } = await result('process/snapshot', {
      processId: 'snapshot',
    });
    const lines = Buffer.from(stdout, 'base64').toString();
    expect(lines.slice(0, 4)).toBe('1\n2\n');
    expect(lines.slice(-7)).toBe('100000\n');
    expect([truncated, stderr]).toEqual([true, stdout]);
    expect(omittedBytes.stdout + lines.length).toBe(588_895);
    expect(headBytes.stdout).toBeLessThan(lines.length);
  },
  'process/list': async () => {
    const other = await server.connect();
    const ids = Array.from({ length: 5 }, (_, index) => `${index}${'p'.repeat(20 * KIB)}`);
    for (const processId of ids) {
      await other.call('process/start', {
        ...shell(processId, 'true'),
        argv: ['true', 'x'.repeat(100 * KIB)],
      });
    }
    const listed: string[] = [];
    let after: number | undefined;
    do {
      const page = await other.call('process/list', after === undefined ? {} : { after });
      expect(JSON.stringify(page).length).toBeLessThanOrEqual(LIMIT);
      for (const { processId, argv, argvTruncated } of page.processes) {
        listed.push(processId);
        expect([argv.join(' ').length, argvTruncated]).toEqual([4096, true]);
      }
      after = page.next;
    } while (after !== undefined);
    expect(listed).toEqual(ids);
    await other.close();
  },
  'recordings/list': async () => {
    const other = await server.connect();
    for (let index = 0; index < 20; index++) {
      const argv = ['/bin/true', 'x'.repeat(8 * KIB)];
      await other.call('process/start', { ...shell(`p${index}`, ''), argv, record: true });
      await other.closedProcess(`p${index}`);
    }
    await other.close();
    const listed: string[] = [];
    let after: string | undefined;
    do {
      const page = await result('recordings/list', after === undefined ? {} : { after });
      listed.push(...page.recordings.map(({ recordingId }) => recordingId));
      after = page.next;
    } while (after !== undefined);
    expect(new Set(listed).size).toBe(20);
  },
  'recordings/read': async () => {
    const record = { ...shell('recorded', 'seq 50000'), record: true };
    const { recordingId } = await client.call('process/start', record);
    await client.closedProcess('recorded');
    const { chunk } = await result('recordings/read', { recordingId: recordingId! });
    expect(chunk.length).toBeGreaterThan(LIMIT / 2);
  },
  'process/screen': async () => {
    await fullScreen('screen');
    await expect(client.request('process/screen', { processId: 'screen' })).rejects.toMatchObject(TOO_LARGE);
  },
  'process/attach': async () => {
    await fullScreen('attach');
    const { processes } = await client.call('process/list', {});
    const { ref } = processes.find(({ processId }) => processId === 'attach')!;
    const other = await server.connect();
    await expect(other.request('process/attach', { ref, screen: true })).rejects.toMatchObject(TOO_LARGE);
    const { processes: listed } = await client.call('process/list', {});
    expect(listed.find(({ processId }) => processId === 'attach')?.attached).toHaveLength(1);
    await other.close();
  },
  'ports/watch': async () => {
    const listen = `import socket, sys
for n in range(900):
    s = socket.socket(); s.bind(('127.100.100.100', 0)); s.listen(); globals()['s%d' % n] = s
print('listening', flush=True)
sys.stdin.read()`;
    await client.call('process/start', {
      ...{ processId: 'ports', argv: ['/usr/bin/python3', '-c', listen], cwd: 'file:///', env: {} },
      ...{ tty: false, pipeStdin: true },
    });
    await client.waitFor(
      ({ method, params }) =>
        method === 'process/output' && (params as { processId: string }).processId === 'ports',
    );
    await refused('ports/watch', { watchId: 'w' });
  },
  'fs/readFile': () => refused('fs/readFile', { path: uri('large') }),
  'fs/readBlock': async () => {
    await client.call('fs/open', { handleId: 'h', path: uri('large') });
    await refused('fs/readBlock', { handleId: 'h', offset: 0, len: 1024 * KIB });
  },
  'fs/readDirectory': () => refused('fs/readDirectory', { path: uri('many') }),
  'fs/walk': () => refused('fs/walk', { path: uri('many'), options: walk }),
  'fs/list': () => refused('fs/list', { paths: [uri('many')] }),
  'fs/hash': () => refused('fs/hash', { paths: Array<string>(1_000).fill(uri('missing')) }),
  'fs/search': () => refused('fs/search', { path: uri('large'), pattern: 'line', maxResults: 10_000 }),
  'capabilityRoots/discoverV1': () =>
    refused('capabilityRoots/discoverV1', { roots: [{ id: 'r', path: uri('root') }] }),
  'capabilities/discoverV2': async () => {
    for (let index = 0; index < 100; index++) {
      write(
        `home/skills/s${index}/SKILL.md`,
        `---\nname: s${index}\ndescription: ${'d'.repeat(1_000)}\n---\n`,
      );
    }
    await refused('capabilities/discoverV2', { cwd: 'file:///' });
  },
  'environmentConfig/read': () =>
    refused('environmentConfig/read', { cwd: 'file:///', configPaths: [['text']], requirementsPaths: [] }),
  'http/request': async () => {
    // Three bodies together are more than the connection may hold: each must be given back.
    for (let index = 0; index < 3; index++) {
      await refused('http/request', { requestId: 'r', method: 'GET', url: web.url });
    }
  },
};

/** Answers of `process/screen` cannot be cut. */
const TOO_LARGE = { code: -32001, message: expect.stringContaining('does not fit into a message') };

/** Starts a program that fills a terminal whose screen is above the limit. */
async function fullScreen(processId: string): Promise<void> {
  await client.call('process/start', {
    ...{
      processId,
      argv: ['/usr/bin/head', '-c', '80000', join(folder, 'one-line')],
      cwd: 'file:///',
      env: {},
    },
    ...{ tty: true, size: { rows: 200, cols: 500 } },
  });
  await client.closedProcess(processId);
}

/** The server alone determines these. */
const FIXED: readonly Method[] = ['initialize', 'environment/info'];

const growing = (Object.keys(METHODS) as Method[]).filter((name) =>
  canGrow(z.toJSONSchema(METHODS[name].result, { unrepresentable: 'any' }) as Schema),
);

test('every method whose result can grow is listed', () => {
  expect(growing.sort()).toEqual([...Object.keys(ANSWERS), ...FIXED].sort());
});

describe('a result above maxResponseBytes is cut, paged or refused', () => {
  test.each(Object.entries(ANSWERS))('%s', async (_name, answer) => {
    await answer();
    expect(await client.call('environment/status', {})).toEqual({ status: 'ready' });
  });
});

interface Schema {
  readonly type?: string | readonly string[];
  readonly maxLength?: number;
  readonly enum?: unknown;
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
}

function canGrow(schema: Schema): boolean {
  if (schema.anyOf !== undefined) return schema.anyOf.some(canGrow);
  if (schema.enum !== undefined || schema.const !== undefined) return false;
  const types = [schema.type ?? []].flat();
  if (types.includes('string')) return schema.maxLength === undefined;
  if (types.includes('array')) return true;
  return Object.values(schema.properties ?? {}).some(canGrow);
}
