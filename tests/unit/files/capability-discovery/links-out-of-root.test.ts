import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { discoverCapabilityRoots } from '../../../../src/files/capability-discovery/discover.ts';
import { LOCAL_FILE_SYSTEM } from '../../../../src/files/local/local-file-system.ts';

const NEVER = new AbortController().signal;
let folder: string;

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'contained-')));
  put('outside/secret.json', '{"secret":1}');
  put('outside/skills/s/SKILL.md', 'outside');
  mkdirSync(join(folder, 'root'));
});

afterEach(() => rmSync(folder, { recursive: true }));

function put(name: string, text: string): void {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text);
}

function link(name: string, target: string): void {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  symlinkSync(target, join(folder, name));
}

async function discover(links?: 'follow', root = 'root') {
  const roots = [{ id: 'r', path: `file://${folder}/${root}` }];
  const [found] = await discoverCapabilityRoots(LOCAL_FILE_SYSTEM, roots, NEVER, links);
  return found!;
}

describe('links that lead out of a root', () => {
  test.each([
    ['a manifest', '.codex-plugin/plugin.json'],
    ['a folder of manifests', '.codex-plugin'],
    ['a configuration', '.mcp.json'],
    ['metadata of a skill', 'a/agents/openai.yaml'],
  ])('%s is skipped with a warning', async (_, name) => {
    put('outside/plugin.json', '{"name":"outside"}');
    const isFolder = name === '.codex-plugin';
    if (name === '.mcp.json') put('root/.codex-plugin/plugin.json', '{}');
    if (name.startsWith('a/')) put('root/a/SKILL.md', 'a');
    link(`root/${name}`, join(folder, 'outside', isFolder ? '' : 'secret.json'));
    const contained = await discover();
    expect(JSON.stringify(contained)).not.toMatch(/secret|"outside"/);
    expect(contained.warnings.join()).toMatch(/leads (?:out of|elsewhere)/);
    const followed = await discover('follow');
    expect(JSON.stringify(followed)).toMatch(/secret|outside/);
    expect(followed.warnings).toEqual([]);
  });

  test('a directory is not entered', async () => {
    link('root/linked', join(folder, 'outside/skills'));
    expect(await discover()).toMatchObject({
      skills: [],
      warnings: [
        `failed to scan capability path file://${folder}/root/linked: the link leads elsewhere and is not followed`,
      ],
    });
    expect((await discover('follow')).skills).toHaveLength(1);
  });

  test('a chain of links is judged by its final target', async () => {
    link('root/one', 'two');
    link('root/two', '../outside/skills');
    expect(await discover()).toMatchObject({
      skills: [],
      warnings: [expect.any(String), expect.any(String)],
    });
  });

  test("an ancestor's manifest must not be a link out of that ancestor", async () => {
    link('.codex-plugin/plugin.json', join(folder, 'outside/secret.json'));
    put('root/SKILL.md', 'x');
    expect((await discover()).namespaceManifests).toHaveLength(1);
    rmSync(join(folder, '.codex-plugin'), { recursive: true });
    link('.codex-plugin/plugin.json', '/etc/hostname');
    expect(await discover()).toMatchObject({
      namespaceManifests: [],
      warnings: [expect.stringContaining('leads out')],
    });
  });
});

describe('links that stay within a root', () => {
  test('are followed, to files and to directories', async () => {
    put('root/real/SKILL.md', 's');
    put('root/manifest.json', '{"name":"n"}');
    link('root/.codex-plugin/plugin.json', '../manifest.json');
    link('root/again', 'real');
    const { plugin, skills, warnings } = await discover();
    expect(plugin?.manifest.contents).toBe('{"name":"n"}');
    expect(skills.map(({ instructions }) => instructions.contents)).toEqual(['s']);
    expect(warnings).toEqual([]);
  });

  test('can lead to the root itself', async () => {
    put('root/.codex-plugin/plugin.json', '{}');
    put('root/a/SKILL.md', 'a');
    link('entrance', 'root');
    const { plugin, skills, warnings } = await discover(undefined, 'entrance');
    expect(plugin?.manifest.path).toBe(`file://${folder}/entrance/.codex-plugin/plugin.json`);
    expect(skills[0]?.instructions.path).toBe(`file://${folder}/entrance/a/SKILL.md`);
    expect(warnings).toEqual([]);
  });
});
