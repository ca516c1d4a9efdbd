import { findRipgrep } from '../files/search/ripgrep-engine.ts';
import { loginShell } from '../process/login-shell.ts';
import { findControlGroups } from '../process/resources/control-groups.ts';
import { createSpawner } from '../process/spawn/create-spawner.ts';
import { findProgram } from '../process/spawn/program-lookup.ts';
import { type Check, type CheckState, missing, ok } from '../sandbox/self-test/check.ts';
import { testSandbox } from '../sandbox/self-test/self-test.ts';
import { quoteValue } from '../server/config/values.ts';
import { EXIT_CODES, UsageError } from './failures.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** What to print, and how to exit. */
export interface DoctorResult {
  readonly text: string;
  readonly exitCode: number;
}

/** Examines this machine as the arguments behind `doctor` ask for. */
export async function doctorCommand(argv: readonly string[], env: Environment): Promise<DoctorResult> {
  if (argv.some((argument) => argument === '--help' || argument === '-h')) {
    return { text: DOCTOR_HELP, exitCode: EXIT_CODES.success.code };
  }
  const [stranger] = argv.filter((argument) => argument !== '--json');
  if (stranger !== undefined) throw new UsageError(`doctor: unexpected argument ${quoteValue(stranger)}`);
  const groups = await examine(env);
  const reliable = groups.every(({ checks }) => checks.every(({ state }) => state !== 'failed'));
  return {
    text: argv.includes('--json') ? json(groups, reliable) : table(groups, reliable),
    exitCode: reliable ? EXIT_CODES.success.code : EXIT_CODES.failure.code,
  };
}

export const DOCTOR_HELP = `\
Usage: exec-server doctor [--json]

Finds out what this machine offers to a server that is started here, by this
user and with this environment. First what sandboxes are made of; then programs
try to break out of one, in earnest and without doing harm. Each attempt is made
without a sandbox as well: one that fails there, too, shows nothing (?). What is
wrong (✗) or missing (-) is followed by what helps. Exits with 1 when a sandbox
cannot be relied on; what is merely missing does not count.

Options:
  --json  Print JSON.
`;

/** Checks that belong together. */
interface Group {
  readonly title: string;
  readonly checks: readonly Check[];
}

async function examine(env: Environment): Promise<Group[]> {
  const spawner = await createSpawner({ protectServer: true });
  try {
    const { requirements, programs, files } = await testSandbox(spawner, env);
    return [
      { title: 'Sandbox', checks: requirements },
      { title: 'Attempts of a program in a sandbox', checks: programs },
      { title: 'Attempts with files under a sandbox', checks: files },
      { title: 'Other', checks: [controlGroups(), await ripgrep(env), ...(await shells(env))] },
    ].filter(({ checks }) => checks.length > 0);
  } finally {
    await spawner.close();
  }
}

function controlGroups(): Check {
  const found = findControlGroups();
  return 'obstacle' in found
    ? missing(
        'control groups',
        `programs cannot be limited in processes and CPU, and sessions not at all: ${found.obstacle}`,
        'start the server as a unit of systemd with Delegate=yes (systemd-run --user --scope -p Delegate=yes exec-server)',
      )
    : ok('control groups', 'programs and sessions can be limited in memory, processes and CPU');
}

async function ripgrep({ PATH = '' }: Environment): Promise<Check> {
  const path = await findRipgrep(PATH);
  return path === null
    ? missing(
        'ripgrep',
        'fs/search uses its own engine, which is slower',
        'install the package ripgrep (apt-get install ripgrep, dnf install ripgrep)',
      )
    : ok('ripgrep', path);
}

/** The shells whose login state can be kept between commands. */
async function shells({ PATH = '' }: Environment): Promise<Check[]> {
  const login = loginShell();
  return Promise.all(
    ['bash', 'zsh'].map(async (name) => {
      const spec = { program: name, cwd: '/', env: { PATH } };
      const path = await findProgram(spec).catch(() => null);
      if (path === null) return missing(name, 'it is not installed', null);
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
    ? 'Sandboxes can be relied on here.'
    : 'Sandboxes cannot be relied on here. What cannot be enforced is refused.';
  return `${[...lines, verdict].join('\n')}\n`;
}

function rows({ name, state, detail, fix }: Check, width: number): string[] {
  const row = `  ${MARKS[state]} ${name.padEnd(width)}  ${detail}`;
  return fix === null ? [row] : [row, `    ${' '.repeat(width)}  -> ${fix}`];
}

const MARKS: Readonly<Record<CheckState, string>> = { ok: '✓', failed: '✗', missing: '-', untested: '?' };
