import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parse } from 'smol-toml';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Host } from '../../../src/cli/commands.ts';
import { UsageError } from '../../../src/cli/failures.ts';
import { mcpConfigCommand } from '../../../src/cli/mcp/client-config.ts';

/** An empty directory, which is the current one and the home. */
let folder: string;
const before = process.cwd();
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'mcp-config-')));
  process.chdir(folder);
  vi.stubEnv('HOME', folder);
});
afterEach(() => {
  process.chdir(before);
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

const config = (...args: readonly string[]) => mcpConfigCommand(args, { env: process.env } as Host);
const OWN = realpathSync(process.argv[1]!);
const LAUNCH = { command: process.execPath, args: [OWN, 'mcp'] };

const JSON_CLIENTS = [
  { name: 'claude', file: '.mcp.json', key: 'mcpServers', entry: { type: 'stdio', ...LAUNCH } },
  { name: 'cursor', file: '.cursor/mcp.json', key: 'mcpServers', entry: LAUNCH },
  { name: 'vscode', file: '.vscode/mcp.json', key: 'servers', entry: { type: 'stdio', ...LAUNCH } },
] as const;

describe.each(JSON_CLIENTS)('the configuration of $name', ({ name, file, key, entry }) => {
  const path = () => join(folder, file);

  test('is printed with the file that it belongs into', async () => {
    const { text, details } = await config(name);
    expect(JSON.parse(text)).toEqual({ [key]: { 'exec-server': entry } });
    expect(details).toContain(path());
    expect(existsSync(path())).toBe(false);
  });

  test('is written beside other entries, and replaced', async () => {
    mkdirSync(dirname(path()), { recursive: true });
    const others = { first: 1, [key]: { other: { command: 'x' } }, last: [true] };
    writeFileSync(path(), `${JSON.stringify(others, null, 4)}\n`);
    chmodSync(path(), 0o600);
    await config(name, '--write', '--ask');
    await config(name, '--write');
    const written = readFileSync(path(), 'utf8');
    expect(JSON.parse(written)).toEqual({
      ...others,
      [key]: { other: { command: 'x' }, 'exec-server': entry },
    });
    expect(written).toMatch(/^ {4}"first": 1,$/m);
    expect(statSync(path()).mode & 0o777).toBe(0o600);
    expect(readdirSync(dirname(path())).filter((found) => found.endsWith('.tmp'))).toEqual([]);
  });

  test.each([
    ['comments', '{ // comment\n}'],
    ['a list', '[]'],
    ['a text in place of the servers', JSON.stringify({ [key]: 'none' })],
  ])('is not written to a file with %s', async (_, content) => {
    mkdirSync(dirname(path()), { recursive: true });
    writeFileSync(path(), content);
    await expect(config(name, '--write')).rejects.toThrow(path());
    expect(readFileSync(path(), 'utf8')).toBe(content);
  });
});

describe('the configuration of codex', () => {
  const path = () => join(folder, '.codex/config.toml');

  test('is printed with the flags of the tools', async () => {
    const flags = ['-E', 'gpu', '--root', '/srv', '--sandbox', 'off', '--read-only', '--ask'];
    const { text, details } = await config('codex', ...flags);
    const args = [OWN, 'mcp', ...flags];
    expect(parse(text)).toEqual({ mcp_servers: { 'exec-server': { ...LAUNCH, args } } });
    expect(details).toContain(path());
    expect(details).toMatch(/codex mcp add exec-server -- .* --ask/);
  });

  test('is written to the file, whose other parts stay as they are', async () => {
    mkdirSync(dirname(path()));
    const before = '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "y"\n';
    const after = '[profiles.a]\nmodel = "z" # keep\n';
    writeFileSync(
      path(),
      `${before}\n[mcp_servers.exec-server]\ncommand = "old"\n\n[mcp_servers.exec-server.env]\nA = "b"\n\n${after}`,
    );
    expect((await config('codex', '--write')).details).toContain(path());
    const once = readFileSync(path(), 'utf8');
    expect(once).toContain(before);
    expect(once).toContain(after);
    expect(parse(once)).toMatchObject({ mcp_servers: { 'exec-server': LAUNCH } });
    await config('codex', '--write');
    expect(readFileSync(path(), 'utf8')).toBe(once);
  });

  test('is written to a new file, and through a link', async () => {
    const target = join(folder, 'shared.toml');
    writeFileSync(target, '');
    mkdirSync(dirname(path()));
    symlinkSync(target, path());
    await config('codex', '--write');
    expect(parse(readFileSync(target, 'utf8'))).toEqual({ mcp_servers: { 'exec-server': LAUNCH } });
  });

  test.each([
    ['that is not TOML', 'model = \n', /not valid TOML/],
    ['in an unusual form', 'mcp_servers = { exec-server = { command = "x" } }\n', /edit it by hand/],
  ])('is not written to a file %s', async (_, content, expected) => {
    mkdirSync(dirname(path()));
    writeFileSync(path(), content);
    await expect(config('codex', '--write')).rejects.toThrow(expected);
    expect(readFileSync(path(), 'utf8')).toBe(content);
  });
});

test.each([[[]], [['emacs']], [['claude', 'cursor']], [['claude', '--sandbox', 'x']]])(
  'refuses %j',
  async (args) => {
    await expect(config(...args)).rejects.toBeInstanceOf(UsageError);
  },
);
