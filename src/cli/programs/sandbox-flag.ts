import { readFileSync } from 'node:fs';
import { isObject } from '../../base/is-object.ts';
import type { StartParams } from '../../client/backend.ts';
import { quoteValue } from '../../server/config/values.ts';
import { RunError, UsageError } from '../failures.ts';
import { cannotReadFile } from '../file-failures.ts';

type Sandbox = NonNullable<StartParams['sandbox']>;

/** The sandboxes with a name. */
const MODES: Readonly<Record<string, Sandbox>> = {
  'read-only': { type: 'readOnly' },
  'workspace-write': { type: 'workspaceWrite' },
};

/** Returns the sandbox of `--sandbox MODE|FILE`. A word without a slash or a dot is a mode. */
export function sandboxOf(value: string): Sandbox {
  const mode = Object.hasOwn(MODES, value) ? MODES[value] : undefined;
  if (mode !== undefined) return mode;
  if (!/[/.]/.test(value)) {
    const modes = Object.keys(MODES).join(' or ');
    throw new UsageError(
      `--sandbox ${quoteValue(value)} is not ${modes}; a file needs a path such as ./policy.json`,
      'run',
    );
  }
  try {
    const policy: unknown = JSON.parse(readFileSync(value, 'utf8'));
    if (isObject(policy)) return policy as Sandbox;
  } catch (error) {
    throw cannotReadFile(`the policy of --sandbox ${value}`, error);
  }
  throw new RunError(`the file of --sandbox ${value} does not contain a JSON object`);
}
