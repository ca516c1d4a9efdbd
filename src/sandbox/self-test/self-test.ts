import type { Spawner } from '../../process/spawn/spawner.ts';
import { createSandbox } from '../create-sandbox.ts';
import { SandboxError } from '../errors.ts';
import type { Sandbox } from '../sandbox.ts';
import { tryToBreakOut } from './break-out.ts';
import { type Check, failed, ok } from './check.ts';
import { tryFileAccess } from './file-access.ts';
import { checkRequirements } from './requirements.ts';
import { checkTerminal } from './terminal.ts';

/** What is known about the sandbox of this machine. */
export interface SelfTest {
  /** What it is made of, and whether it works. */
  readonly requirements: readonly Check[];
  /** What programs tried inside of it; empty when there is none. */
  readonly programs: readonly Check[];
  /** What was tried with files. */
  readonly files: readonly Check[];
}

/**
 * Finds out whether sandboxes can be relied on here. `env` is what a server would have as its environment; what it would answer to a
 * sandboxed request is what the check named `sandbox` says.
 */
export async function testSandbox(
  spawner: Spawner,
  env: Readonly<Record<string, string | undefined>>,
): Promise<SelfTest> {
  let sandbox: Sandbox;
  try {
    sandbox = createSandbox(spawner, env);
  } catch (error) {
    return { requirements: [refusal(error)], programs: [], files: [] };
  }
  try {
    const parts = await checkRequirements(spawner, env.PATH ?? '', process.arch as 'x64' | 'arm64');
    const refused = await sandbox.check().then(() => null, refusal);
    if (refused !== null) return { requirements: [...parts, refused], programs: [], files: [] };
    const terminal = await checkTerminal(spawner, sandbox);
    return {
      requirements: [...parts, ok(WHOLE, 'programs can be sandboxed on this machine'), terminal],
      programs: await tryToBreakOut(spawner, sandbox, process.execPath),
      files: await tryFileAccess(spawner, sandbox),
    };
  } finally {
    await sandbox.close();
  }
}

const WHOLE = 'sandbox';

/** The very words that a client gets. */
function refusal(error: unknown): Check {
  if (error instanceof SandboxError) return failed(WHOLE, error.message, null);
  throw error;
}
