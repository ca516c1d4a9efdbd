import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { FileError } from '../../../../src/files/errors.ts';
import { findConfigLocations } from '../../../../src/files/executor-config/config-locations.ts';
import {
  MAX_EXECUTOR_CONFIG_BYTES,
  MAX_EXECUTOR_CONFIG_TOTAL_BYTES,
  MAX_TOML_DEPTH,
} from '../../../../src/files/executor-config/limits.ts';
import { readExecutorConfig } from '../../../../src/files/executor-config/read-config.ts';
import { LOCAL_FILE_SYSTEM } from '../../../../src/files/local/local-file-system.ts';
import { nativePathOfText } from '../../../../src/files/native-path.ts';

const signal = new AbortController().signal;
let folder: string;

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'executor-config-')));
});

afterEach(() => rmSync(folder, { recursive: true }));

function put(name: string, text: string | Uint8Array): void {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text);
}

const path = (name: string) => nativePathOfText(join(folder, name));

function read(options: { cwd?: string; config?: string[][]; requirements?: string[][] } = {}) {
  const { cwd = 'project', config = [['a']], requirements = [] } = options;
  const locations = { userHome: path('home'), codexHome: path('home/.codex'), system: path('etc') };
  return readExecutorConfig(
    LOCAL_FILE_SYSTEM,
    { cwd: path(cwd), configPaths: config, requirementsPaths: requirements },
    { variables: {}, signal, locations },
  );
}

const user = (text: string) => put('home/.codex/config.toml', text);
const trust = (name: string, level = 'trusted') =>
  `[projects."${join(folder, name)}"]\ntrust_level = "${level}"\n`;
const texts = async (options?: Parameters<typeof read>[0]) =>
  (await read(options)).config.layers.map(({ toml }) => toml.trim());

describe('selection', () => {
  const DOCUMENT = `a = 1
b = "x"
[t]
x = 1
y = { z = [1, 2, { q = 1 }], w = "m" }
"dotted.key" = 5
[[list]]
n = 1
[[list]]
n = 2
[list.sub]
k = "v"
`;

  test.each<[string, string[][], string]>([
    ['a value', [['a']], 'a = 1\n'],
    ['in the order of the file', [['b'], ['a']], 'a = 1\nb = "x"\n'],
    ['a table', [['t']], '[t]\nx = 1\n"dotted.key" = 5\n\n[t.y]\nz = [1, 2, { q = 1 }]\nw = "m"\n'],
    [
      'parts of a table',
      [
        ['t', 'x'],
        ['t', 'y', 'w'],
      ],
      '[t]\nx = 1\n\n[t.y]\nw = "m"\n',
    ],
    [
      'a part and the whole',
      [['t', 'x'], ['t', 'y'], ['t']],
      '[t]\nx = 1\n"dotted.key" = 5\n\n[t.y]\nz = [1, 2, { q = 1 }]\nw = "m"\n',
    ],
    ['a key with a dot', [['t', 'dotted.key']], '[t]\n"dotted.key" = 5\n'],
    ['a value on the way', [['a', 'x', 'y']], 'a = 1\n'],
    ['a list on the way', [['list', 'n']], '[[list]]\nn = 1\n\n[[list]]\nn = 2\n\n[list.sub]\nk = "v"\n'],
    ['nothing of a table', [['t', 'none']], '[t]\n'],
  ])('%s', async (_, config, toml) => {
    user(DOCUMENT);
    expect((await read({ config })).config.layers).toEqual([
      { source: `user (${folder}/home/.codex/config.toml)`, baseDir: `file://${folder}/home/.codex`, toml },
    ]);
  });

  test('omits a layer without selected keys', async () => {
    user(DOCUMENT);
    expect((await read({ config: [['none'], ['']] })).config.layers).toEqual([]);
    expect((await read({ config: [], requirements: [['a']] })).config.layers).toEqual([]);
  });

  test.each([
    'v = 1.0',
    'v = -0.0',
    'v = inf',
    'v = -inf',
    'v = nan',
    'v = 1e+300',
    'v = 9223372036854775807',
    'v = true',
    'v = 1979-05-27T07:32:00Z',
    'v = 1979-05-27T07:32:00.500-07:00',
    'v = 1979-05-27',
    'v = 07:32:00',
    'v = 1979-05-27T07:32:00',
    'v = "é\\u0001\\t\\n\\"\\\\"',
    'v = []',
    'v = [[1], ["a", { b = {} }]]',
    '[v]',
    '[v.w.x]',
    '[v."a b"]\nc = 1',
    '[[v]]\n\n[[v]]\na = 1',
  ])('preserves %s', async (text) => {
    user(`${text}\n`);
    expect(await texts({ config: [['v']] })).toEqual([text]);
  });

  test('treats names that every object has as ordinary keys', async () => {
    user('__proto__ = 1\nconstructor = 2\n[toString]\n__proto__ = { a = 1 }\n');
    const config = [['__proto__'], ['constructor'], ['toString', '__proto__']];
    expect(await texts({ config })).toEqual([
      '__proto__ = 1\nconstructor = 2\n\n[toString.__proto__]\na = 1',
    ]);
  });
});

describe('layers', () => {
  test("are ordered from the system's to the managed one, and files are read on every call", async () => {
    put('etc/config.toml', 'a = "system"\n');
    user(`a = "user"\n${trust('project')}`);
    put('project/.codex/config.toml', 'a = "project"\n');
    put('etc/managed_config.toml', 'a = "managed"\n');
    const { config } = await read();
    expect(config.layers.map(({ source }) => source)).toEqual([
      `system (${folder}/etc/config.toml)`,
      `user (${folder}/home/.codex/config.toml)`,
      `project (${folder}/project/.codex/config.toml)`,
      `legacy managed_config.toml (${folder}/etc/managed_config.toml)`,
    ]);
    expect(config.cloudInsertionIndex).toBe(1);
    put('etc/config.toml', 'b = 1\n');
    expect((await read()).config).toMatchObject({ cloudInsertionIndex: 0, layers: [{}, {}, {}] });
  });

  test("of requirements: the system's and those that follow from managed values", async () => {
    put('etc/requirements.toml', 'a = 1\n');
    put('etc/managed_config.toml', 'approval_policy = "never"\nsandbox_mode = "workspace-write"\n');
    const requirements = [['a'], ['allowed_approval_policies'], ['allowed_sandbox_modes']];
    const read1 = await read({ requirements });
    expect(read1.requirements).toEqual({
      cloudInsertionIndex: 1,
      layers: [
        { source: `${folder}/etc/requirements.toml`, baseDir: `file://${folder}/etc`, toml: 'a = 1\n' },
        {
          source: `${folder}/etc/managed_config.toml`,
          baseDir: `file://${folder}/etc`,
          toml: 'allowed_approval_policies = ["never"]\nallowed_sandbox_modes = ["read-only", "workspace-write"]\n',
        },
      ],
    });
    put('etc/managed_config.toml', 'sandbox_mode = "read-only"\n');
    expect((await read({ requirements })).requirements.layers[1]!.toml).toBe(
      'allowed_sandbox_modes = ["read-only"]\n',
    );
  });

  test('of projects lack the keys that only the user may set', async () => {
    user(trust('project'));
    put('project/.codex/config.toml', 'model_provider = "x"\nnotify = ["x"]\nmodel = "m"\n[otel]\nx = 1\n');
    const config = [['model_provider'], ['notify'], ['model'], ['otel']];
    expect(await texts({ config })).toEqual(['model = "m"']);
  });
});

describe('projects', () => {
  beforeEach(() => {
    put('project/.git/HEAD', 'ref: x');
    put('project/.codex/config.toml', 'a = "P"\n');
    put('project/sub/.codex/config.toml', 'a = "S"\n');
    put('project/sub/deep/.codex/config.toml', 'a = "D"\n');
  });

  const found = async (config: string, cwd = 'project/sub/deep') => {
    user(config);
    return (await texts({ cwd })).map((text) => text.slice(5, 6)).join('');
  };

  test('are not read without trust', async () => {
    put('project/.codex/config.toml', 'broken [');
    expect(await found('')).toBe('');
    expect(await found(trust('project', 'untrusted'))).toBe('');
    expect(await found(trust('elsewhere'))).toBe('');
  });

  test('are trusted as a whole by their root, or one directory at a time', async () => {
    expect(await found(trust('project'))).toBe('PSD');
    expect(await found(trust('project'), 'project/sub')).toBe('PS');
    expect(await found(trust('project/sub'))).toBe('S');
    expect(await found(trust('project') + trust('project/sub', 'untrusted'))).toBe('PD');
    expect(await found(trust('project'), 'project/sub/deep/not/there')).toBe('PSD');
  });

  test('start at a marker; without one each directory is its own project', async () => {
    rmSync(join(folder, 'project/.git'), { recursive: true });
    expect(await found(trust('project'))).toBe('');
    expect(await found(trust('project'), 'project')).toBe('P');
    expect(await found(trust('project/sub/deep'))).toBe('D');
    mkdirSync(join(folder, 'project/.git'));
    expect(await found(trust('project'))).toBe('');
    rmSync(join(folder, 'project/.git'), { recursive: true });
    put('project/.git', 'gitdir: elsewhere');
    expect(await found(trust('project'))).toBe('PSD');
  });

  test('may have other markers, set by the user, the system or the managed configuration', async () => {
    put('project/sub/MARK', '');
    expect(await found(`project_root_markers = ["MARK"]\n${trust('project/sub')}`)).toBe('SD');
    expect(await found(`project_root_markers = ["MARK"]\n${trust('project')}`)).toBe('SD');
    put('project/.git/HEAD', '');
    rmSync(join(folder, 'project/.git/HEAD'));
    expect(await found(`project_root_markers = ["MARK"]\n${trust('project')}`)).toBe('');
    expect(await found(`project_root_markers = []\n${trust('project/sub/deep')}`)).toBe('D');
    put('etc/config.toml', `project_root_markers = ["MARK"]\n${trust('project/sub')}`);
    expect(await found('')).toBe('SD');
    expect(await found(trust('project/sub', 'untrusted'))).toBe('');
    put('etc/managed_config.toml', trust('project/sub'));
    expect(await found(trust('project/sub', 'untrusted'))).toBe('SD');
  });

  test('are matched by the path used and by the real path', async () => {
    symlinkSync('project', join(folder, 'link'));
    expect(await found(trust('project'), 'link/sub')).toBe('PS');
    expect(await found(trust('link'), 'link/sub')).toBe('PS');
    expect(await found(trust('link'), 'project/sub')).toBe('');
    expect(await found(trust('link') + trust('project', 'untrusted'), 'link/sub')).toBe('');
    expect(await found(trust('link', 'untrusted') + trust('project'), 'link/sub')).toBe('PS');
    user(trust('project'));
    expect((await read({ cwd: 'link' })).config.layers[0]!.baseDir).toBe(`file://${folder}/link/.codex`);
  });

  test("do not include the user's own directory a second time", async () => {
    user(`a = 1\n${trust('home')}`);
    expect(await texts({ cwd: 'home' })).toEqual(['a = 1']);
  });
});

describe('rejects', () => {
  const refusal = async (options?: Parameters<typeof read>[0]) => {
    const error = await read(options).then(
      () => null,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(FileError);
    expect((error as FileError).kind).toBe('failed');
    return (error as FileError).message;
  };

  test.each<[string, string | Uint8Array, RegExp]>([
    ['TOML', 'b = 1\na = [\n', /config\.toml:\d+:\d+: /],
    ['a key twice', 'a = 1\na = 2\n', /config\.toml:2:\d+: /],
    [
      'no UTF-8',
      Buffer.from([0x61, 0x3d, 0x22, 0xff, 0x22]),
      /invalid utf-8 sequence of 1 bytes from index 3/,
    ],
    ['too large', `a = "${'x'.repeat(MAX_EXECUTOR_CONFIG_BYTES)}"`, /more than 131072 bytes/],
    ['too deep', `a = ${'['.repeat(MAX_TOML_DEPTH + 1)}`, /config\.toml/],
    ['a large integer', 'a = 9223372036854775808', /an integer has more than 64 bits/],
    ['too deep by its keys', `[${'a.'.repeat(20_000)}a]`, /nested more than 128 deep/],
    ['markers', 'project_root_markers = "x"', /project_root_markers must be an array of strings/],
    ['a marker', 'project_root_markers = [1]', /project_root_markers must be an array of strings/],
    ['projects', 'projects = 3', /projects must be a table/],
    ['a project', '[projects]\n"/x" = "trusted"', /projects\.\/x must be a table/],
    ['a level', '[projects."/x"]\ntrust_level = "weird"', /trust_level must be `trusted` or `untrusted`/],
  ])('%s', async (_, text, message) => {
    put('home/.codex/config.toml', text);
    expect(await refusal()).toMatch(message);
    expect(await refusal()).toMatch(/^failed to load executor-local config: /);
  });

  test('a file of a trusted project, of the system, and a directory in its place', async () => {
    user(trust('project'));
    put('project/.codex/config.toml', 'a = [\n');
    expect(await refusal()).toContain(`${folder}/project/.codex/config.toml:`);
    user('');
    put('etc/requirements.toml', 'a = [\n');
    expect(await refusal()).toContain('requirements.toml:');
    put('etc/requirements.toml', '');
    put('etc/managed_config.toml', 'approval_policy = 1\n');
    expect(await refusal()).toContain('approval_policy');
    rmSync(join(folder, 'etc'), { recursive: true });
    mkdirSync(join(folder, 'etc/config.toml'), { recursive: true });
    expect(await refusal()).toContain('is not a file');
  });

  test('files that exceed the total size', async () => {
    const names = Array.from(
      { length: MAX_EXECUTOR_CONFIG_TOTAL_BYTES / MAX_EXECUTOR_CONFIG_BYTES },
      (_, n) => `d${n}`,
    );
    const text = `a = "${'x'.repeat(MAX_EXECUTOR_CONFIG_BYTES - 10)}"\n`;
    put('project/.git', '');
    for (const index of names.keys())
      put(join('project', ...names.slice(0, index + 1), '.codex/config.toml'), text);
    put('project/.codex/config.toml', text);
    user(trust('project'));
    expect(await refusal({ cwd: join('project', ...names) })).toContain('all files together');
  });
});

describe('locations', () => {
  const find = (variables: Record<string, string>) => findConfigLocations(LOCAL_FILE_SYSTEM, variables);

  test('of the user default to the home directory unless a variable is set', async () => {
    expect(await find({ HOME: '/h' })).toEqual({
      userHome: '/h',
      codexHome: '/h/.codex',
      system: '/etc/codex',
    });
    expect((await find({ HOME: '', CODEX_HOME: '' })).userHome).toBe(homedir());
    symlinkSync('.', join(folder, 'link'));
    expect((await find({ HOME: '/h', CODEX_HOME: join(folder, 'link') })).codexHome).toBe(folder);
  });

  test('fail when a variable names a missing directory', async () => {
    put('file', '');
    await expect(find({ CODEX_HOME: '/no/such' })).rejects.toThrow(
      'failed to find Codex home: CODEX_HOME points to "/no/such", but that path does not exist',
    );
    await expect(find({ CODEX_HOME: join(folder, 'file') })).rejects.toThrow('that path is not a directory');
  });
});
