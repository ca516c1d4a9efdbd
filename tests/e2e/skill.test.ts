import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { COMMANDS } from '../../src/cli/commands.ts';
import { startServer } from '../../src/testing/index.ts';
import { McpFixture } from '../support/mcp-server.ts';

const ROOT = fileURLToPath(new URL('../../skills/', import.meta.url));
const SKILL = readFileSync(`${ROOT}exec-server/SKILL.md`, 'utf8');

test('the skill of the package is found without a warning', async () => {
  const server = await startServer();
  try {
    const client = await server.connect();
    const folder = mkdtempSync(join(tmpdir(), 'skill-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    cpSync(ROOT, join(folder, 'skills'), { recursive: true });
    const roots = [{ id: 'package', path: pathToFileURL(folder).href }];
    const answer = await client.call('capabilityRoots/discoverV1', { roots });
    expect(answer.roots).toMatchObject([{ id: 'package', warnings: [], error: null }]);
    const { skills } = answer.roots[0]!;
    expect(skills.map(({ instructions }) => instructions.path)).toEqual([
      expect.stringMatching(/\/skills\/exec-server\/SKILL\.md$/),
    ]);
    await client.close();
  } finally {
    await server.close();
  }
});

test('the skill names commands and tools that exist', async () => {
  const commands = COMMANDS.map(({ name }) => name);
  const named = [...SKILL.matchAll(/`exec-server ([a-z-]+)/g)].map(([, name]) => name!);
  expect(named.length).toBeGreaterThan(10);
  for (const name of named) expect(commands).toContain(name);
  const fixture = await McpFixture.open();
  const tools = fixture.servers.connection('never').tools.tools.map(({ name }) => name);
  await fixture.close();
  const mentioned = new Set([...SKILL.matchAll(/`([a-z]+_[a-z]+)`/g)].map(([, name]) => name!));
  expect([...mentioned].sort()).toEqual([...tools].sort());
});
