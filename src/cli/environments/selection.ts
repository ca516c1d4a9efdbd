import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { userConfigFile } from '../config-file.ts';
import { RunError } from '../failures.ts';
import { cannotReadFile, cannotWriteFile } from '../file-failures.ts';
import { replaceFile } from '../replace-file.ts';
import { withFolderLock } from './folder-lock.ts';

/** Directories that are remembered. The one that was set first is forgotten first. */
export const MAX_DIRECTORIES = 1_000;

const FILE = 'directories.json';

type Environment = Readonly<Record<string, string | undefined>>;

/** The environment that `use` has chosen for a directory, and the directory at which it was chosen. */
interface Selection {
  readonly environment: string;
  readonly directory: string;
}

/** Returns what was chosen for this directory, or for the nearest one above it. */
export function selectionFor(directory: string, env: Environment): Selection | null {
  const chosen = read(env);
  for (let path = directory; ; path = dirname(path)) {
    const environment = chosen.get(path);
    if (environment !== undefined) return { environment, directory: path };
    if (path === dirname(path)) return null;
  }
}

/** Remembers the environment of a directory; null forgets it. */
export async function select(directory: string, environment: string | null, env: Environment): Promise<void> {
  await withFolderLock(dirname(pathOf(env)), async () => {
    const chosen = read(env);
    chosen.delete(directory);
    if (environment !== null) chosen.set(directory, environment);
    write(env, [...chosen].slice(-MAX_DIRECTORIES));
  });
}

/** Without a home directory nothing was chosen. */
function read(env: Environment): Map<string, string> {
  const path = userConfigFile(env, FILE);
  if (path === null) return new Map();
  try {
    return new Map(Object.entries(JSON.parse(readFileSync(path, 'utf8'))));
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    // A file that is no JSON was not written by this program, and the next `use` replaces it.
    if (code === 'ENOENT' || code === 'ENOTDIR' || error instanceof SyntaxError) return new Map();
    throw cannotReadFile(path, error);
  }
}

function write(env: Environment, chosen: readonly (readonly [string, string])[]): void {
  const path = pathOf(env);
  try {
    replaceFile(path, `${JSON.stringify(Object.fromEntries(chosen), null, 2)}\n`, { mode: 0o600 });
  } catch (error) {
    throw cannotWriteFile(path, error);
  }
}

function pathOf(env: Environment): string {
  const path = userConfigFile(env, FILE);
  if (path === null) throw new RunError('this user has no home directory; set XDG_CONFIG_HOME');
  return path;
}
