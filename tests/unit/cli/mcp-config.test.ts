import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
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

  test('keeps what the user has added to the entry', async () => {
    mkdirSync(dirname(path()), { recursive: true });
    const own = { env: { A: 'b' }, ...entry, command: 'old', disabled: true };
    writeFileSync(path(), JSON.stringify({ [key]: { 'exec-server': own, other: {} } }));
    await config(name, '--write');
    expect(JSON.parse(readFileSync(path(), 'utf8'))).toEqual({
      [key]: { 'exec-server': { ...own, ...entry }, other: {} },
    });
  });

  test.each([
    ['comments', '{ // comment\n}'],
    ['a list', '[]'],
    ['a text in place of the servers', JSON.stringify({ [key]: 'none' })],
    ['a URL of the server', JSON.stringify({ [key]: { 'exec-server': { url: 'http://a/mcp' } } })],
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
    const flags = ['-E', 'ws://127.0.0.1:9', '--root', '/srv', '--sandbox', 'off', '--read-only', '--ask'];
    const { text, details } = await config('codex', ...flags);
    const args = [OWN, 'mcp', ...flags];
    expect(parse(text)).toEqual({ mcp_servers: { 'exec-server': { ...LAUNCH, args } } });
    expect(details).toContain(path());
    expect(details).toMatch(/codex mcp add exec-server -- .* --ask/);
  });

  test('is written to the file, whose other parts stay as they are', async () => {
    mkdirSync(dirname(path()));
    const content = (command: string, args: string) => `\
# mine
model = "x"

[mcp_servers.exec-server] # the tools
# slow
startup_timeout_sec = 5
${command} # was "node" #1
${args}
enabled = true

[mcp_servers.exec-server.env]
A = "b"

# about other
[mcp_servers.other]
command = "y"
`;
    writeFileSync(path(), content('command = "o#ld"', 'args = [\n  "a", # first\n  "b",\n]'));
    expect((await config('codex', '--write')).details).toContain(path());
    const { command, args } = LAUNCH;
    const expected = content(`command = ${JSON.stringify(command)}`, `args = ["${args.join('", "')}"]`);
    expect(readFileSync(path(), 'utf8')).toBe(expected);
    await config('codex', '--write');
    expect(readFileSync(path(), 'utf8')).toBe(expected);
  });

  test('is added to a table without a command, and at the end of a file without the table', async () => {
    mkdirSync(dirname(path()));
    writeFileSync(path(), '[mcp_servers."exec-server"]');
    await config('codex', '--write');
    expect(parse(readFileSync(path(), 'utf8'))).toEqual({ mcp_servers: { 'exec-server': LAUNCH } });
    writeFileSync(path(), '# mine\n[mcp_servers.exec-server.env]\nA = "b"');
    await config('codex', '--write');
    const text = readFileSync(path(), 'utf8');
    expect(text).toMatch(
      /^# mine\n\[mcp_servers\.exec-server\.env\]\nA = "b"\n\n\[mcp_servers\.exec-server\]\n/,
    );
    expect(parse(text)).toEqual({ mcp_servers: { 'exec-server': { ...LAUNCH, env: { A: 'b' } } } });
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
    ['with a URL of the server', '[mcp_servers.exec-server]\nurl = "http://a/mcp"\n', /with a URL/],
    ['in an unusual form', 'mcp_servers = { exec-server = { command = "x" } }\n', /edit it by hand/],
  ])('is not written to a file %s', async (_, content, expected) => {
    mkdirSync(dirname(path()));
    writeFileSync(path(), content);
    await expect(config('codex', '--write')).rejects.toThrow(expected);
    expect(readFileSync(path(), 'utf8')).toBe(content);
  });
});

describe('a file is refused and stays as it is', () => {
  test.each<[string, string | Buffer, RegExp]>([
    ['that is not UTF-8', Buffer.from('{ "a": "\xff" }', 'latin1'), /is not UTF-8 text/],
    [
      'with a number that would be rounded',
      '{ "a": [12345678901234567890] }',
      /1234567890123456789.*rounded/,
    ],
    ['with a number that would become null', '{ "a": 1e999 }', /1e999.*rounded/],
    ['with a key twice', '{ "a": { "b": 1, "b": 2 } }', /has a key twice/],
    ['that is not an object', '[]', /does not contain a JSON object/],
  ])('%s', async (_, content, reason) => {
    writeFileSync('.mcp.json', content);
    await expect(config('claude', '--write')).rejects.toThrow(reason);
    expect(readFileSync('.mcp.json')).toEqual(Buffer.from(content));
    expect(readdirSync('.')).toEqual(['.mcp.json']);
  });

  test('that is a pipe, without waiting for its writer', async () => {
    execFileSync('mkfifo', ['.mcp.json']);
    await expect(config('claude', '--write')).rejects.toThrow(/not a regular file/);
  });
});

test('numbers and strings that look like numbers or keys stay as they are', async () => {
  const text = '{ "a": [0.1, -2.5e-7, 9007199254740991, 100000], "b:": "\\"12345678901234567890\\": 1" }';
  writeFileSync('.mcp.json', text);
  await config('claude', '--write');
  expect(JSON.parse(readFileSync('.mcp.json', 'utf8'))).toMatchObject({
    a: [0.1, -2.5e-7, 9007199254740991, 100000],
    'b:': '"12345678901234567890": 1',
  });
});

test('a large integer of a TOML file stays as it is', async () => {
  mkdirSync('.codex');
  writeFileSync('.codex/config.toml', 'limit = 9223372036854775807\n');
  await config('codex', '--write');
  expect(readFileSync('.codex/config.toml', 'utf8')).toMatch(/^limit = 9223372036854775807\n/);
});

test('a file keeps its mode, whatever the umask is', async () => {
  writeFileSync('.mcp.json', '{}');
  chmodSync('.mcp.json', 0o664);
  const umask = process.umask(0o077);
  try {
    await config('claude', '--write');
  } finally {
    process.umask(umask);
  }
  expect(statSync('.mcp.json').mode & 0o7777).toBe(0o664);
});

test.runIf(process.getuid?.() === 0)('a file keeps its owner', async () => {
  writeFileSync('.mcp.json', '{}');
  chownSync('.mcp.json', 12345, 12346);
  await config('claude', '--write');
  expect(statSync('.mcp.json')).toMatchObject({ uid: 12345, gid: 12346 });
});

test('desktop programs get the path of a program that only the PATH of a terminal has', async () => {
  mkdirSync('bin');
  symlinkSync(OWN, 'bin/exec-server');
  vi.stubEnv('PATH', `${join(folder, 'bin')}:/usr/bin`);
  const entryOf = async (client: string) => JSON.parse((await config(client)).text).mcpServers['exec-server'];
  expect(await entryOf('claude')).toMatchObject({ command: 'exec-server', args: ['mcp'] });
  expect(await entryOf('cursor')).toEqual(LAUNCH);
  expect((await config('cursor', '--write')).details).toContain('run this again when');
  expect((await config('claude', '--write')).details).not.toContain('run this again when');
});

test('paths become absolute', async () => {
  mkdirSync('src');
  writeFileSync('tok', 'secret');
  const url = 'ws://127.0.0.1:9';
  const { text } = await config('cursor', '-E', 'local', '-E', url, '--root', 'src', '--root', `${url}:/srv`);
  const { args } = JSON.parse(text).mcpServers['exec-server'];
  expect(args.slice(6)).toEqual(['--root', join(folder, 'src'), '--root', `${url}:/srv`]);
  const withToken = await config('cursor', '-E', url, '--token-file', './tok');
  expect(withToken.text).toContain(JSON.stringify(join(folder, 'tok')));
});

test.each([
  [[]],
  [['emacs']],
  [['claude', 'cursor']],
  [['claude', '--sandbox', 'x']],
  [['claude', '--root', 'missing']],
  [['claude', '-E', 'nowhere']],
  [['claude', '-E', 'ws://127.0.0.1:9', '--root', 'relative']],
  [['claude', '-E', 'ws://127.0.0.1:9', '--token-file', 'missing']],
])('refuses %j', async (args) => {
  const refusal: unknown = await config(...args, '--write').catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(UsageError);
  expect(refusal).toMatchObject({ command: 'mcp' });
  expect(readdirSync(folder)).toEqual([]);
});
