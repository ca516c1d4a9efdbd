import { realpathSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { quoteValue } from '../../server/config/values.ts';
import { LOCAL, type Target } from '../environments/target.ts';
import { UsageError } from '../failures.ts';
import { parseOperand } from '../files/operands.ts';

/**
 * The roots of each environment, absolute paths of it. `ENV:/PATH` is for one environment. A path alone is for this machine if it is
 * among the environments, else for all of them. Throws UsageError for a path that cannot be a root.
 */
export function rootsOf(
  given: readonly string[],
  environments: readonly Pick<Target, 'name'>[],
  directory: string,
): readonly (readonly string[])[] {
  const roots = environments.map((): string[] => []);
  const here = environments.findIndex(({ name }) => name === LOCAL);
  for (const text of given) {
    const { environment, path } = parseOperand(text, 'mcp');
    const index = environments.findIndex(({ name }) => name === environment);
    if (environment !== null && index === -1) {
      throw new UsageError(`--root ${quoteValue(text)}: -E does not name ${quoteValue(environment)}`, 'mcp');
    }
    const owners = environment !== null ? [index] : here !== -1 ? [here] : [...roots.keys()];
    for (const owner of owners) {
      roots[owner]!.push(owner === here ? localRoot(text, path, directory) : remoteRoot(text, path));
    }
  }
  return roots;
}

/** The flag for a root that means the same in every directory. */
export function absoluteRoot(
  text: string,
  environments: readonly Pick<Target, 'name'>[],
  directory: string,
): string {
  const { environment, path } = parseOperand(text, 'mcp');
  const hasLocal = environments.some(({ name }) => name === LOCAL);
  return hasLocal && (environment === null || environment === LOCAL) ? resolve(directory, path) : text;
}

function localRoot(text: string, path: string, directory: string): string {
  try {
    const real = realpathSync(resolve(directory, path));
    if (statSync(real).isDirectory()) return real;
  } catch {}
  throw new UsageError(`--root ${quoteValue(text)} is not a directory of this machine`, 'mcp');
}

function remoteRoot(text: string, path: string): string {
  if (path.startsWith('/')) return path;
  throw new UsageError(`--root ${quoteValue(text)} must be an absolute path of the environment`, 'mcp');
}
