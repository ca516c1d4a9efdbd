import { realpath, stat } from 'node:fs/promises';
import { nativePathOfText, systemPath } from '../../files/native-path.ts';
import { restrictToRoot } from '../../files/root-restricted-file-system.ts';
import { type Access, FULL_ACCESS } from './access.ts';
import type { TokenLimits } from './claims.ts';

/**
 * The access that a token's limits leave. Null when they cannot be kept here: the directory must exist, and under its one real
 * path, because below it no link is followed.
 */
export async function accessWithin({ scopes, path }: TokenLimits): Promise<Access | null> {
  if (scopes === undefined) return FULL_ACCESS;
  const files = scopes.includes('files') ? 'write' : scopes.includes('read-only') ? 'read' : 'none';
  const below = path === undefined ? null : nativePathOfText(path);
  if (below !== null && !(await isRealDirectory(systemPath(below)))) return null;
  return {
    exec: scopes.includes('exec'),
    files,
    net: scopes.includes('net'),
    metrics: scopes.includes('metrics'),
    below,
    restrict: (all) => (below === null ? all : restrictToRoot(all, below)),
  };
}

async function isRealDirectory(path: string | Buffer): Promise<boolean> {
  try {
    const real = await realpath(path, { encoding: 'buffer' });
    return real.equals(Buffer.from(path)) && (await stat(path)).isDirectory();
  } catch {
    return false;
  }
}
