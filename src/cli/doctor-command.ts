import { createSpawner } from '../process/spawn/create-spawner.ts';
import type { Check, CheckState } from '../sandbox/self-test/check.ts';
import { testSandbox } from '../sandbox/self-test/self-test.ts';
import { DEFAULT_CONFIG } from '../server/config/config.ts';
import { fastPathsFor } from '../server/fast-paths.ts';
import { machineChecks } from '../server/machine/machine-checks.ts';
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
      { title: 'Other', checks: await machineChecks(env) },
    ].filter(({ checks }) => checks.length > 0);
  } finally {
    await spawner.close();
  }
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
