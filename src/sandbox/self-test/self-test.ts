import type { Spawner, SpawnSpec } from '../../process/spawn/spawner.ts';
import { createSandbox } from '../create-sandbox.ts';
import { SandboxError } from '../errors.ts';
import type { SandboxPolicy } from '../policy/policy.ts';
import type { Sandbox } from '../sandbox.ts';
import { type Check, failed, missing, ok } from './check.ts';
import { checkEscapes } from './escape-check.ts';
import { tryFileAccess } from './file-access.ts';
import { checkRequirements } from './requirements.ts';
import { runProgram } from './run-program.ts';

/** The results of the sandbox self-test. */
export interface SelfTest {
  /** The kernel features that a sandbox needs, and whether a sandbox works. */
  readonly requirements: readonly Check[];
  /** The escape attempts of programs. Empty when there is no sandbox. */
  readonly programs: readonly Check[];
  /** The attempts through file operations. */
  readonly files: readonly Check[];
}

/**
 * Tests whether sandboxes work on this machine. `env` is the environment that a server would have. The check named `sandbox` holds the
 * error that a server would return to a sandboxed request.
 */
export async function testSandbox(
  spawner: Spawner,
  env: Readonly<Record<string, string | undefined>>,
  bwrapPath = '',
): Promise<SelfTest> {
  let sandbox: Sandbox;
  try {
    sandbox = createSandbox(spawner, env, { prebuild: true, bwrapPath });
  } catch (error) {
    return { requirements: [refusal(error)], programs: [], files: [] };
  }
  try {
    const parts = await checkRequirements(
      spawner,
      process.arch as 'x64' | 'arm64',
      env.PATH ?? '',
      bwrapPath,
    );
    const refused = await sandbox.check().then(() => null, refusal);
    if (refused !== null) return { requirements: [...parts, refused], programs: [], files: [] };
    const terminal = await checkTerminal(spawner, sandbox);
    return {
      requirements: [...parts, ok(WHOLE, 'programs can be sandboxed on this machine'), terminal],
      programs: await checkEscapes(spawner, sandbox, process.execPath),
      files: await tryFileAccess(spawner, sandbox),
    };
  } finally {
    await sandbox.close();
  }
}

const WHOLE = 'sandbox';

/** The same message that a client gets. */
function refusal(error: unknown): Check {
  if (error instanceof SandboxError) return failed(WHOLE, error.message, null);
  throw error;
}

/** Checks whether a sandboxed program can have a controlling terminal. */
export async function checkTerminal(spawner: Spawner, sandbox: Pick<Sandbox, 'wrapProgram'>): Promise<Check> {
  if (!spawner.pty.available) return missing(TERMINALS, spawner.pty.reason, null);
  const launch = await sandbox.wrapProgram(OPEN_TERMINAL, READ_ONLY, new AbortController().signal);
  const { code, output } = await runProgram(spawner, launch);
  return code === 0
    ? ok(TERMINALS, 'sandboxed programs can have one')
    : missing(TERMINALS, output || `the program exited with ${code}`, null);
}

const TERMINALS = 'terminals';

const OPEN_TERMINAL: SpawnSpec = {
  program: '/bin/sh',
  argv: ['sh', '-c', 'test -t 0 && : >/dev/tty'],
  cwd: '/',
  env: {},
  io: { kind: 'pty', rows: 24, cols: 80 },
};

const READ_ONLY: SandboxPolicy = {
  disk: { base: 'read', platform: false, entries: [], denyGlobs: [] },
  network: 'restricted',
};
