// Packages that tests and benchmarks use and that are no dependencies: they are installed into the user's cache folder on demand.
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

export function cacheFolder() {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'exec-server');
}

/**
 * The file that `find` returns for the folder of a package in the cache. Installs the package if there is none, into a temporary
 * folder that is then renamed, so that a failed or concurrent install never leaves a partial folder. `moreFlags` are for npm.
 */
export async function ensurePackage(name, version, find, moreFlags = []) {
  const folder = join(cacheFolder(), `${name.split('/').at(-1)}-${version}`);
  const found = find(folder);
  if (found) return found;
  mkdirSync(cacheFolder(), { recursive: true });
  const staging = mkdtempSync(join(cacheFolder(), 'install-'));
  try {
    const flags = [
      '--ignore-scripts',
      '--no-audit',
      '--no-fund',
      '--loglevel=error',
      '--fetch-retries=1',
      ...moreFlags,
    ];
    const args = ['i', '--prefix', staging, ...flags, `${name}@${version}`];
    await promisify(execFile)('npm', args, { cwd: staging });
    if (!find(staging)) throw new Error(`the package has no program for ${process.platform}-${process.arch}`);
    try {
      renameSync(staging, folder);
    } catch (error) {
      if (!find(folder)) throw error;
    }
    return find(folder);
  } catch (error) {
    const reason = (error.stderr || error.message).trim().split('\n')[0];
    throw new Error(`cannot install ${name}@${version}: ${reason}`);
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}
