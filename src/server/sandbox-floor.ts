import { readFileSync } from 'node:fs';
import { StartError } from '../listener/start-error.ts';
import { Sandbox, type SandboxContext } from '../protocol/sandbox.ts';
import { validateParams } from '../protocol/validate.ts';
import { policyOf } from '../sandbox/policy/normalize.ts';

/** The sandbox below which no request gets, from a file with a `sandbox` object in JSON. Throws StartError when it cannot serve as one. */
export function readFloor(path: string): SandboxContext | null {
  if (path === '') return null;
  try {
    const floor = validateParams(Sandbox(), JSON.parse(readFileSync(path, 'utf8')));
    // What it means must not depend on a request.
    policyOf(floor, { cwd: null, tmpdir: process.env.TMPDIR });
    return floor;
  } catch (error) {
    const cause = (error as Error).message.replace(/^params/, 'the object');
    throw new StartError(
      `--min-sandbox ${path}: ${cause}; it must hold a sandbox object as process/start takes it, in JSON`,
    );
  }
}
