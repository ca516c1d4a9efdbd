import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'smol-toml';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { parseEnvironments } from '../../../src/environment/config/environments-toml.ts';
import { TomlTable } from '../../../src/environment/config/toml-table.ts';
import * as entry from '../../../src/environment/index.ts';

const PAGE = readFileSync(new URL('../../../docs/environments.md', import.meta.url), 'utf8');
const ENTRY = fileURLToPath(new URL('../../../src/environment/index.ts', import.meta.url));

function blocks(language: string): string[] {
  const pattern = new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g');
  return [...PAGE.matchAll(pattern)].map((match) => match[1]!);
}

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'environment-docs-'));
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

/** Runs an example against this checkout. Returns what it prints. */
async function run(example: string): Promise<unknown[]> {
  vi.stubEnv('CODEX_HOME', folder);
  vi.stubEnv('CODEX_EXEC_SERVER_URL', '');
  const printed: unknown[] = [];
  vi.spyOn(console, 'log').mockImplementation((text) => printed.push(text));
  const program = join(folder, 'example.mjs');
  writeFileSync(program, example.replace("'exec-server/environment'", JSON.stringify(ENTRY)));
  await import(program);
  return printed;
}

it('the first example of the page runs', async () => {
  expect(await run(blocks('ts')[0]!)).toEqual(['hello\n']);
});

it('the example of capability roots runs', async () => {
  writeFileSync(join(folder, 'SKILL.md'), 'how to take notes');
  vi.spyOn(process, 'cwd').mockReturnValue(folder);
  expect(await run(blocks('ts')[1]!)).toEqual(['how to take notes']);
});

it('the file of the page is valid', () => {
  const table = new TomlTable('environments.toml', '', parse(blocks('toml')[0]!));
  const provided = parseEnvironments(table, '/home');
  expect(provided.default).toBe('gpu');
  expect(provided.environments.map(({ id }) => id)).toEqual(['gpu', 'box']);
});

it('the entry exports what the page explains', () => {
  const names = [
    'ClientError',
    'DiscoveryCache',
    'EnvironmentManager',
    'LOCAL_ENVIRONMENT_ID',
    'LocalEnvironment',
    'RemoteEnvironment',
    'ThreadEnvironments',
    'attachmentRoots',
    'configuredEnvironments',
    'discoverEnvironments',
    'fetchOver',
    'forkThread',
    'inspectRoots',
    'openMcpTransport',
    'resolveStepRoots',
    'restoreSelection',
    'selectRoot',
    'selectionMetadata',
    'webSocketTransport',
  ];
  expect(Object.keys(entry).sort()).toEqual(names);
  for (const name of names) expect(PAGE).toMatch(new RegExp(`\\b${name}\\b`));
});
