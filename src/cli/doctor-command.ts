import { findRipgrep } from '../files/search/ripgrep-engine.ts';
import { loginShell } from '../process/login-shell.ts';
import { controlGroupsUnavailableReason } from '../process/resources/control-groups.ts';
import { createSpawner } from '../process/spawn/create-spawner.ts';
import { findProgram } from '../process/spawn/program-lookup.ts';
import { type Check, type CheckState, missing, ok } from '../sandbox/self-test/check.ts';
import { testSandbox } from '../sandbox/self-test/self-test.ts';
import { DEFAULT_CONFIG } from '../server/config/config.ts';
import { fastPathsFor } from '../server/fast-paths.ts';
import type { CommandResult } from './commands.ts';
import { EXIT_CODES } from './failures.ts';
import { parseOnlyFlags } from './flags.ts';
import { DOCTOR } from './specs/small-specs.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Examines this machine. */
export async function doctorCommand(argv: readonly string[], env: Environment): Promise<CommandResult> {
  const flags = parseOnlyFlags('doctor', argv, DOCTOR.flags);
  const groups = await examine(env);
  const reliable = groups.every(({ checks }) => checks.every(({ state }) => state !== 'failed'));
  return {
    text: flags.json ? json(groups, reliable) : table(groups, reliable),
    exitCode: reliable ? EXIT_CODES.success.code : EXIT_CODES.failure.code,
  };
}

/** Related checks under one heading. */
interface Group {
  readonly title: string;
  readonly checks: readonly Check[];
}

async function examine(env: Environment): Promise<Group[]> {
  // As a server has it, because a cached answer must not weaken a sandbox.
  const { openCached } = fastPathsFor(DEFAULT_CONFIG, { inProcess: true });
  const spawner = await createSpawner({ protectServer: true, openCached });
  try {
    const { requirements, programs, files } = await testSandbox(spawner, env, env.EXEC_SERVER_BWRAP_PATH);
    return [
      { title: 'Sandbox', checks: requirements },
      { title: 'Escape attempts by a program', checks: programs },
      { title: 'Escape attempts by file operations', checks: files },
      { title: 'Other', checks: [controlGroups(), await ripgrep(env), ...(await shells(env))] },
    ].filter(({ checks }) => checks.length > 0);
  } finally {
    await spawner.close();
  }
}

function controlGroups(): Check {
  const reason = controlGroupsUnavailableReason();
  return reason !== null
    ? missing(
        'control groups',
        `process and CPU limits of programs, and all session limits, are unavailable: ${reason}`,
        'start the server as a systemd unit with Delegate=yes (systemd-run --user --scope -p Delegate=yes exec-server)',
      )
    : ok('control groups', 'memory, process and CPU limits work for programs and sessions');
}

async function ripgrep({ PATH = '', EXEC_SERVER_RIPGREP_PATH }: Environment): Promise<Check> {
  const path = EXEC_SERVER_RIPGREP_PATH || (await findRipgrep(PATH));
  return path === null
    ? missing(
        'ripgrep',
        'fs/search uses its built-in engine, which is slower',
        'install the package ripgrep (apt-get install ripgrep, dnf install ripgrep)',
      )
    : ok('ripgrep', path);
}

/** The shells whose login state the server can capture. */
async function shells({ PATH = '' }: Environment): Promise<Check[]> {
  const login = loginShell();
  return Promise.all(
    ['bash', 'zsh'].map(async (name) => {
      const spec = { program: name, cwd: '/', env: { PATH } };
      const path = await findProgram(spec).catch(() => null);
      if (path === null) return missing(name, 'not installed', null);
      return ok(name, login.name === name ? `${path}, the login shell` : path);
    }),
  );
}

function json(groups: readonly Group[], reliable: boolean): string {
  const checks = groups.flatMap((group) => group.checks.map((check) => ({ group: group.title, ...check })));
  return `${JSON.stringify({ reliable, checks }, null, 2)}\n`;
}

function table(groups: readonly Group[], reliable: boolean): string {
  const checks = groups.flatMap((group) => group.checks);
  const width = Math.max(...checks.map(({ name }) => name.length));
  const lines = groups.flatMap(({ title, checks: own }) => [
    title,
    ...own.flatMap((check) => rows(check, width)),
    '',
  ]);
  const verdict = reliable
    ? 'Sandboxes are reliable on this machine.'
    : 'Sandboxes are not reliable on this machine. The server refuses requests whose sandbox it cannot enforce.';
  return `${[...lines, verdict].join('\n')}\n`;
}

function rows({ name, state, detail, fix }: Check, width: number): string[] {
  const row = `  ${MARKS[state]} ${name.padEnd(width)}  ${detail}`;
  return fix === null ? [row] : [row, `    ${' '.repeat(width)}  -> ${fix}`];
}

const MARKS: Readonly<Record<CheckState, string>> = { ok: '✓', failed: '✗', missing: '-', untested: '?' };
