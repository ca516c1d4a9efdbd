import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'smol-toml';
import { afterEach, expect, it, vi } from 'vitest';
import { parseEnvironments } from '../../../src/environment/config/environments-toml.ts';
import { TomlTable } from '../../../src/environment/config/toml-table.ts';

const PAGE = readFileSync(new URL('../../../docs/environments.md', import.meta.url), 'utf8');
const ENTRY = fileURLToPath(new URL('../../../src/environment/index.ts', import.meta.url));

function block(language: string): string {
  return new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(PAGE)![1]!;
}

const folder = mkdtempSync(join(tmpdir(), 'environment-docs-'));
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

it('the example of the page runs', async () => {
  vi.stubEnv('CODEX_HOME', folder);
  const printed: unknown[] = [];
  vi.spyOn(console, 'log').mockImplementation((text) => printed.push(text));
  const program = join(folder, 'example.mjs');
  writeFileSync(program, block('ts').replace("'exec-server/environment'", JSON.stringify(ENTRY)));
  await import(program);
  expect(printed).toEqual(['hello\n']);
});

it('the file of the page is valid', () => {
  const provided = parseEnvironments(new TomlTable('environments.toml', '', parse(block('toml'))), '/home');
  expect(provided.default).toBe('gpu');
  expect(provided.environments.map(({ id }) => id)).toEqual(['gpu', 'box']);
});
