import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { discoverInstalled } from '../../../../src/files/capability-discovery/installed.ts';
import { newestVersion } from '../../../../src/files/capability-discovery/versions.ts';
import {
  DISCOVERY_ANSWER_BYTES,
  DISCOVERY_WARNING_BYTES,
  MAX_DISCOVERY_ROOTS,
  MAX_MANIFEST_DEPTH,
} from '../../../../src/files/limits.ts';
import { LOCAL_FILE_SYSTEM } from '../../../../src/files/local/local-file-system.ts';
import { nativePathOfText } from '../../../../src/files/native-path.ts';

let home: string;

beforeEach(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), 'installed-')));
});

afterEach(() => rmSync(home, { recursive: true }));

function put(name: string, content: string | object): void {
  const path = join(home, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
}

const plugin = (name: string, manifest: string | object) =>
  put(`.codex/plugins/cache/${name}/.codex-plugin/plugin.json`, manifest);
/** A manifest whose servers have this many levels. */
const nested = (levels: number) =>
  `{"name":"p","mcpServers":${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}}`;
const head = (name: string, description: string, more = '') =>
  `---\nname: ${name}\ndescription: ${description}\n${more}---\nbody\n`;

function discover(links?: 'follow') {
  const locations = {
    userHome: nativePathOfText(home),
    codexHome: nativePathOfText(join(home, '.codex')),
    system: nativePathOfText('/nowhere'),
  };
  return discoverInstalled(LOCAL_FILE_SYSTEM, locations, new AbortController().signal, links);
}

test('an empty home has nothing installed', async () => {
  expect(await discover()).toEqual({ plugins: [], skills: [], warnings: [] });
});

describe('plugins', () => {
  test("are returned with their files and their skills, prefixed with the plugin's name", async () => {
    const root = `file://${home}/.codex/plugins/cache/mkt/plug/1.2.3`;
    plugin('mkt/plug/1.2.3', { name: 'plug', interface: { displayName: ' Plug! ' }, mcpServers: './m.json' });
    put('.codex/plugins/cache/mkt/plug/1.2.3/m.json', '{}');
    put('.codex/plugins/cache/mkt/plug/1.2.3/skills/x/SKILL.md', head('x', 'X'));
    const { plugins, warnings } = await discover();
    expect(warnings).toEqual([]);
    expect(plugins).toEqual([
      {
        id: 'plug@mkt',
        displayName: 'Plug!',
        remotePluginId: null,
        version: '1.2.3',
        root,
        files: {
          manifest: {
            path: `${root}/.codex-plugin/plugin.json`,
            contents: '{"name":"plug","interface":{"displayName":" Plug! "},"mcpServers":"./m.json"}',
          },
          mcpConfig: { path: `${root}/m.json`, contents: '{}' },
          appsConfig: null,
        },
        skills: [
          {
            name: 'plug:x',
            description: 'X',
            shortDescription: null,
            path: `${root}/skills/x/SKILL.md`,
            dependencies: null,
            policy: null,
          },
        ],
      },
    ]);
  });

  test('are sorted by id, with one version each, and other directories are skipped', async () => {
    for (const name of ['b/p/1.10.0', 'b/p/1.9.0', 'a/q/9.0.0', 'a/q/local', 'a/q2/1'])
      plugin(name, { name: 'n' });
    put('.codex/plugins/cache/a/file', 'x');
    put('.codex/plugins/cache/a/.hidden/1/.codex-plugin/plugin.json', '{}');
    put('.codex/plugins/cache/a/empty/readme', 'x');
    const { plugins, warnings } = await discover();
    expect(plugins.map(({ id, version }) => `${id} ${version}`)).toEqual([
      'p@b 1.10.0',
      'q2@a 1',
      'q@a local',
    ]);
    expect(warnings).toEqual([]);
  });

  test('with inline servers return them like a file; a nested plugin has its own prefix', async () => {
    plugin('m/p/1', { name: 'p', mcpServers: { a: { command: 'x' } } });
    put('.codex/plugins/cache/m/p/1/in/.claude-plugin/plugin.json', { name: 'inner' });
    put('.codex/plugins/cache/m/p/1/in/s/SKILL.md', head('s', 'S'));
    plugin('m/nameless/7', {});
    const { plugins } = await discover();
    expect(plugins.map(({ displayName }) => displayName)).toEqual(['7', 'p']);
    expect(plugins[1]!.files.mcpConfig).toEqual({
      path: `file://${home}/.codex/plugins/cache/m/p/1/.codex-plugin/plugin.json`,
      contents: '{"a":{"command":"x"}}',
    });
    expect(plugins[1]!.skills.map(({ name }) => name)).toEqual(['inner:s']);
  });

  test.each([
    ['no manifest', () => put('.codex/plugins/cache/m/p/1/readme', '')],
    ['a manifest that is not JSON', () => plugin('m/p/1', '{')],
    ['a manifest that is a list', () => plugin('m/p/1', [1])],
    ['a name that is not text', () => plugin('m/p/1', { name: 1 })],
    ['a display name that is not text', () => plugin('m/p/1', { name: 'p', interface: { displayName: 1 } })],
    ['apps that are not a path', () => plugin('m/p/1', { name: 'p', apps: {} })],
    ['a name with a lone surrogate', () => plugin('m/p/1', '{"name":"a\\ud800"}')],
    ['servers nested too deeply', () => plugin('m/p/1', nested(MAX_MANIFEST_DEPTH + 1))],
    ['servers nested 100,000 times', () => plugin('m/p/1', nested(100_000))],
  ])('with %s are skipped with a warning', async (_, make) => {
    make();
    plugin('m/good/1', { name: 'good' });
    const { plugins, warnings } = await discover();
    expect(plugins.map(({ id }) => id)).toEqual(['good@m']);
    expect(warnings).toEqual([expect.stringContaining('/m/p/1')]);
  });

  test('with servers nested as deeply as allowed are returned', async () => {
    plugin('m/p/1', nested(MAX_MANIFEST_DEPTH));
    const { plugins, warnings } = await discover();
    expect(plugins.map(({ id }) => id)).toEqual(['p@m']);
    expect(warnings).toEqual([]);
  });

  test('beyond the limit are skipped with a warning', async () => {
    for (let index = 0; index <= MAX_DISCOVERY_ROOTS; index++) plugin(`m/p${index}/1`, {});
    const { plugins, warnings } = await discover();
    expect(plugins).toHaveLength(MAX_DISCOVERY_ROOTS);
    expect(warnings).toEqual([`only 128 of 129 plugins are listed`]);
  });

  test('may be links within the cache, and links out of it only when allowed', async () => {
    plugin('m/p/1', { name: 'p' });
    mkdirSync(join(home, 'work/1/.codex-plugin'), { recursive: true });
    writeFileSync(join(home, 'work/1/.codex-plugin/plugin.json'), '{"name":"w"}');
    symlinkSync('p', join(home, '.codex/plugins/cache/m/inside'));
    symlinkSync(join(home, 'work'), join(home, '.codex/plugins/cache/m/outside'));
    const contained = await discover();
    expect(contained.plugins.map(({ id }) => id)).toEqual(['inside@m', 'p@m']);
    expect(contained.warnings).toEqual([expect.stringContaining('leads out of')]);
    expect((await discover('follow')).plugins.map(({ id }) => id)).toEqual(['inside@m', 'outside@m', 'p@m']);
  });
});

describe('the response is limited', () => {
  test('to plugins that fit, although inline servers take more space than in their file', async () => {
    // Each number has 5 bytes in the file and 21 in the response.
    const servers = `{"a":[${'1e20,'.repeat(180_000)}1]}`;
    for (let index = 100; index < 115; index++) {
      plugin(`m/p${index}/1`, `{"name":"p","mcpServers":${servers}}`);
    }
    const found = await discover();
    expect(JSON.stringify(found).length).toBeLessThan(DISCOVERY_ANSWER_BYTES);
    expect(found.plugins).toHaveLength(13);
    expect(found.warnings).toHaveLength(2);
    expect(found.warnings[0]).toBe(
      `plugin file://${home}/.codex/plugins/cache/m/p113/1 is skipped: capability discovery answer exceeds the ${DISCOVERY_ANSWER_BYTES}-byte limit`,
    );
  });

  test('to skills that fit, although escaped text takes more space than in its file', async () => {
    const description = `"${'\\e'.repeat(32_000)}x"`;
    for (let index = 0; index < 400; index++) {
      put(`${index % 2 ? '.codex' : '.agents'}/skills/s${index}/SKILL.md`, head('s', description));
    }
    const found = await discover();
    expect(JSON.stringify(found).length).toBeLessThan(DISCOVERY_ANSWER_BYTES);
    expect(found.skills.length).toBeGreaterThan(300);
    expect(found.skills.length + found.warnings.length).toBe(400);
    expect(found.warnings[0]).toMatch(/SKILL.md is skipped: capability discovery answer exceeds/);
  });

  test('to a number of warnings', async () => {
    const long = 'x'.repeat(200);
    for (let index = 0; index < 800; index++) put(`.codex/skills/${long}/${long}/${index}/SKILL.md`, 'no');
    const { warnings } = await discover();
    expect(warnings.join('').length).toBeLessThan(DISCOVERY_WARNING_BYTES + 100);
    expect(warnings.at(-1)).toBe(`${800 - warnings.length + 1} more warnings`);
  });
});

describe('skills', () => {
  test('of both locations are returned with their discovery root', async () => {
    put('.codex/skills/b/SKILL.md', head('b', 'B'));
    put('.codex/skills/.system/a/SKILL.md', head('a', 'A'));
    put('.agents/skills/c/SKILL.md', head('c', 'C'));
    const { skills } = await discover();
    expect(skills.map(({ name, discoveryRoot }) => [name, discoveryRoot])).toEqual([
      ['a', { id: 'codex-home-skills', path: `file://${home}/.codex/skills` }],
      ['b', { id: 'codex-home-skills', path: `file://${home}/.codex/skills` }],
      ['c', { id: 'user-agent-skills', path: `file://${home}/.agents/skills` }],
    ]);
  });

  test('have text on one line, and default to the name of their directory', async () => {
    put(
      '.codex/skills/dir/SKILL.md',
      '---\ndescription: >\n  a\n   b\nmetadata:\n  short-description: "s\\n s"\n---\n',
    );
    const [skill] = (await discover()).skills;
    expect(skill).toMatchObject({ name: 'dir', description: 'a b', shortDescription: 's s' });
  });

  test.each([
    ['no front matter', 'text'],
    ['front matter after an empty line', `\n${head('a', 'A')}`],
    ['unterminated front matter', '---\nname: a\ndescription: d\n'],
    ['no description', '---\nname: a\n---\n'],
    ['an empty description', head('a', '""')],
    ['too long a name', head('n'.repeat(65), 'd')],
    ['invalid front matter', '---\nname: [\n---\n'],
    ['front matter that is a list', '---\n- a\n---\n'],
    ['a name that is a list', head('[a]', 'd')],
    ['a description that is a mapping', head('a', '{b: c}')],
  ])('with %s are skipped with a warning', async (_, text) => {
    put('.codex/skills/bad/SKILL.md', text);
    put('.codex/skills/good/SKILL.md', head('n'.repeat(64), 'd'));
    const { skills, warnings } = await discover();
    expect(skills).toHaveLength(1);
    expect(warnings).toEqual([expect.stringContaining('/bad/SKILL.md')]);
  });

  test('return their dependencies and policy', async () => {
    put('.codex/skills/a/SKILL.md', head('a', 'A'));
    put(
      '.codex/skills/a/agents/openai.yaml',
      'dependencies:\n  tools:\n    - {type: mcp, value: srv, url: "http://x"}\n    - type: cli\n    - value: v\npolicy:\n  allow_implicit_invocation: false\n  products: [Codex]\n',
    );
    const [skill] = (await discover()).skills;
    expect(skill).toMatchObject({
      dependencies: {
        tools: [
          {
            type: 'mcp',
            value: 'srv',
            description: null,
            transport: null,
            command: null,
            url: 'http://x',
            oauthCallbackPort: null,
          },
        ],
      },
      policy: { allowImplicitInvocation: false, products: ['codex'] },
    });
  });

  test('have limited names with their prefix, and limited texts of tools', async () => {
    plugin('m/p/1', { name: 'n'.repeat(100) });
    put('.codex/plugins/cache/m/p/1/skills/a/SKILL.md', head('a'.repeat(28), 'A'));
    put('.codex/plugins/cache/m/p/1/skills/b/SKILL.md', head('b'.repeat(29), 'B'));
    const tool = (kind: number, text: number) => {
      const [word, line] = ['k'.repeat(kind), '\u{1f600}'.repeat(text)];
      return `{type: mcp, value: v, transport: ${word}, description: ${line}, command: ${line}, url: ${line}}`;
    };
    put(
      '.codex/plugins/cache/m/p/1/skills/a/agents/openai.yaml',
      `dependencies: {tools: [${tool(64, 1024)}, ${tool(65, 1025)}, {type: ${'t'.repeat(65)}, value: v}]}`,
    );
    const { plugins, warnings } = await discover();
    expect(plugins[0]!.skills.map(({ name }) => name.length)).toEqual([129]);
    expect(warnings).toEqual([expect.stringContaining('/b/SKILL.md is skipped: its name has more than 129')]);
    const line = '\u{1f600}'.repeat(1024);
    expect(plugins[0]!.skills[0]!.dependencies!.tools).toMatchObject([
      { transport: 'k'.repeat(64), description: line, command: line, url: line },
      { transport: null, description: null, command: null, url: null },
    ]);
  });

  test('lose metadata whose aliases expand to too much, with a warning', async () => {
    put('.codex/skills/a/SKILL.md', head('a', 'A'));
    const tool = `{type: a, value: b, description: "${'a '.repeat(27_000)}"}`;
    put(
      '.codex/skills/a/agents/openai.yaml',
      `t: &t ${tool}\ndependencies: {tools: [${Array(1_000).fill('*t').join(', ')}]}`,
    );
    const { skills, warnings } = await discover();
    expect(skills).toMatchObject([{ name: 'a', dependencies: null, policy: null }]);
    expect(warnings).toEqual([
      `skill metadata file://${home}/.codex/skills/a/agents/openai.yaml is ignored: its aliases expand to more than 131072 characters`,
    ]);
  });

  test.each([
    [': [', null, null],
    ['policy: 3', null, null],
    ['policy:\n  products: [bogus]\ndependencies:\n  tools: [{type: a, value: b}]', null, null],
    ['policy:\n  allow_implicit_invocation: maybe', null, null],
    ['dependencies: 3', null, null],
    ['dependencies:\n  tools: x', null, null],
    ['dependencies:\n  tools: [x]', null, null],
    ['- a', null, null],
    ['dependencies:\n  tools: []\npolicy: {}', null, { allowImplicitInvocation: null, products: [] }],
    ['interface: {}', null, null],
  ])('with the metadata %j return what is valid', async (text, dependencies, policy) => {
    put('.codex/skills/a/SKILL.md', head('a', 'A'));
    put('.codex/skills/a/agents/openai.yaml', text);
    const [skill] = (await discover()).skills;
    expect(skill).toMatchObject({ dependencies, policy });
  });
});

test.each([
  [[], null],
  [['1.0.0', 'local', '2.0.0'], 'local'],
  [['1.9.0', '1.10.0'], '1.10.0'],
  [['1.0.0-rc.2', '1.0.0-rc.10', '1.0.0-rc', '1.0.0-1'], '1.0.0-rc.10'],
  [['1.0.0', '1.0.0-beta'], '1.0.0'],
  [['1.0.0', 'zz', 'abc'], 'zz'],
  [['1.0', '10'], '10'],
])('of the versions %j uses %s', (versions, newest) => {
  expect(newestVersion(versions)).toBe(newest);
  expect(newestVersion([...versions].reverse())).toBe(newest);
});
