import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { ensureReference } from '../../scripts/reference.mjs';
import { findCommand } from '../../src/cli/commands.ts';
import { CONFIG_OPTIONS } from '../../src/server/config/config.ts';
import { temporaryFolder } from './temporary-folder.ts';

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
const [reference, skipped] = await ensureReference().then(
  (path: string) => [path, null] as const,
  (error: Error) => ['', error.message] as const,
);
const home = temporaryFolder('command-line-');
afterAll(() => rmSync(home, { recursive: true }));

function run(command: string, args: readonly string[], more: Readonly<Record<string, string>> = {}) {
  const env = { PATH: process.env.PATH, HOME: home, CODEX_HOME: home, ...more };
  return spawnSync(command, args, { encoding: 'utf8', env, input: '', timeout: 60_000 });
}
const REMOTE = ['--remote', 'http://127.0.0.1:9', '--environment-id', 'e'];
const codex = (...args: string[]) => run(reference, ['exec-server', ...args]);
const ours = (...args: string[]) => run(process.execPath, [BIN, ...args]);

/** A flag in a help text. */
interface HelpFlag {
  readonly takesValue: boolean;
  readonly text: string;
}

/** The flags of a help text by name. Lines that begin with a flag name it, and the lines below describe it. */
function flagsOf(help: string): ReadonlyMap<string, HelpFlag> {
  const flags = new Map<string, HelpFlag>();
  let named: string[] = [];
  for (const line of help.split('\n')) {
    if (/^ {2,6}-/.test(line)) {
      // A description on the same line follows two spaces.
      const [head = '', ...rest] = line.trim().split(/ {2,}/);
      named = [];
      for (const [, name, value] of head.matchAll(/--(?:\[no-\])?([a-z0-9-]+)(?: ([^\s,]+))?/g)) {
        const known = flags.get(name!)?.text ?? '';
        flags.set(name!, { takesValue: value !== undefined, text: `${known} ${rest.join(' ')}` });
        named.push(name!);
      }
    } else {
      for (const name of named) {
        const { takesValue, text } = flags.get(name)!;
        flags.set(name, { takesValue, text: `${text} ${line.trim()}` });
      }
      if (/^\S/.test(line)) named = [];
    }
  }
  return flags;
}

/** Flags of the reference that exec-server does not list, and why. */
const MISSING: Readonly<Record<string, string>> = {};

/** Flags that only exec-server has, besides its settings, which docs/cli.md lists. */
const ADDED: Readonly<Record<string, string>> = {
  transport: 'short form of --listen',
  'url-file': 'publishes the URL',
  'pid-file': 'publishes the process id',
  port: 'short form of --listen',
  version: 'the reference prints its version with `codex --version`',
};

/** Defaults of the reference that are others here. */
const OTHER_DEFAULTS: Readonly<Record<string, string>> = {
  'concurrent-requests': 'requests of a connection do not block each other',
};

const commandsOf = (help: string) =>
  /\nCommands:\n((?: {2,}.*\n)+)/
    .exec(help)![1]!
    .split('\n')
    .flatMap((line) => /^ {2}(\w+) /.exec(line)?.[1] ?? []);

describe.skipIf(skipped !== null)('the command line of codex exec-server', () => {
  test('the helps of the servers list the same flags', () => {
    const [theirs, mine] = [codex('--help'), ours('serve', '--help')].map(({ stdout }) => flagsOf(stdout));
    expect([...theirs!.keys()].filter((name) => !mine!.has(name))).toEqual(Object.keys(MISSING));
    const settings = new Set(CONFIG_OPTIONS.map(({ flag }) => flag.slice(2)));
    const added = [...mine!.keys()].filter((name) => !theirs!.has(name) && !settings.has(name));
    expect(added.sort()).toEqual(Object.keys(ADDED).sort());
    for (const [name, { takesValue }] of theirs!) {
      if (!(name in MISSING)) expect([name, mine!.get(name)?.takesValue]).toEqual([name, takesValue]);
    }
  });

  test('the helps of the forwarders list the same flags', () => {
    const [theirs, mine] = [codex('forward', '--help'), ours('forward', '--help')].map(({ stdout }) =>
      flagsOf(stdout),
    );
    expect([...theirs!.keys()].filter((name) => !(name in MISSING)).sort()).toEqual([...mine!.keys()].sort());
    for (const [name, { takesValue }] of theirs!) {
      if (!(name in MISSING)) expect([name, mine!.get(name)?.takesValue]).toEqual([name, takesValue]);
    }
  });

  test('defaults and variables are the same', () => {
    const [theirs, mine] = [codex('--help'), ours('serve', '--help')].map(({ stdout }) => flagsOf(stdout));
    const differing: string[] = [];
    for (const [name, { text }] of theirs!) {
      const [, standard] = /\[default: ([^\]]+)\]/.exec(text) ?? [];
      const [, variable] = /\[env: (\w+)=/.exec(text) ?? [];
      const here = mine!.get(name)?.text ?? '';
      if (standard !== undefined && !new RegExp(`[Dd]efault: ${standard}\\b`).test(here))
        differing.push(name);
      if (variable !== undefined) expect(here).toContain(variable);
    }
    expect(differing).toEqual(Object.keys(OTHER_DEFAULTS));
  });

  test('every command of the reference is a command or an alias here', () => {
    const theirs = commandsOf(codex('--help').stdout);
    expect(theirs.length).toBeGreaterThan(1);
    for (const name of theirs) expect(findCommand(name), name).toBeDefined();
  });

  test.each(['chatgpt', '"chatgpt"'])('-c forced_login_method=%s rules an API key out', (method) => {
    const args = [...REMOTE, '-c', `forced_login_method=${method}`];
    const key = { CODEX_API_KEY: 'sk-key' };
    for (const { status, stderr } of [
      run(reference, ['exec-server', ...args], key),
      run(process.execPath, [BIN, ...args], key),
    ]) {
      expect(status).toBe(1);
      expect(stderr).toContain('registration requires ChatGPT authentication or API key authentication');
    }
  });

  const DIRECT = [...REMOTE, '--remote-transport', 'direct'];
  const FORWARD = ['forward', '--connect', 'ws://127.0.0.1:9'];
  test.each<[string[], number]>([
    [DIRECT, 2],
    [[...REMOTE, '--aws-sigv4'], 1],
    [[...REMOTE, '--aws-region', 'x'], 2],
    [[...REMOTE, '--aws-profile', 'x'], 2],
    [[...REMOTE, '--aws-service', 'x'], 2],
    [[...REMOTE, '--remote-transport', 'x'], 2],
    [['--aws-sigv4'], 2],
    [['--remote-transport', 'noise'], 2],
    [[...DIRECT, '--aws-sigv4', '--aws-sigv4'], 2],
    [[...DIRECT, '--aws-sigv4', '--executor-credential-stdin'], 2],
    [[...DIRECT, '--aws-sigv4', '--use-agent-identity-auth'], 2],
    [['--use-agent-identity-auth'], 2],
    [[...DIRECT, '--aws-sigv4'], 1],
    [[...DIRECT, '--aws-sigv4', '--aws-region', 'x', '--aws-profile', 'none'], 1],
    [[...DIRECT, '--aws-sigv4', '--aws-region', 'x', '--aws-service', ' '], 1],
    [['--remote', 'http://192.0.2.1', ...DIRECT.slice(2), '--aws-sigv4', '--aws-region', 'x'], 1],
    [[...FORWARD, ...DIRECT, '--aws-sigv4'], 1],
    [[...FORWARD, ...DIRECT], 2],
    [['--linux-sandbox-pid-namespace', 'x'], 2],
    [['--strict-config', '-c', 'nonsense=1'], 1],
    [['help', 'forward'], 0],
    [['help'], 0],
  ])('%j exits with %i in both programs', (args, code) => {
    expect([codex(...args).status, ours(...args).status]).toEqual([code, code]);
  });
});
