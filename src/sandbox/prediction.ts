import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path/posix';

/**
 * Guesses whether bwrap works, without loading or running anything: bwrap is in a standard directory, and user namespaces are not disabled.
 * Checks system directories only, because a call on any other directory might hang. A configured `bwrapPath` was checked at the start.
 */
export function sandboxIsLikely(searchPath: string, bwrapPath = '', settings = '/proc/sys'): boolean {
  const found = searchPath
    .split(':')
    .some((directory) => SYSTEM_DIRECTORIES.includes(directory) && existsSync(join(directory, 'bwrap')));
  return (bwrapPath !== '' || found) && !isZero(join(settings, 'user/max_user_namespaces'));
}

const SYSTEM_DIRECTORIES = [
  '/usr/local/sbin',
  '/usr/local/bin',
  '/usr/sbin',
  '/usr/bin',
  '/sbin',
  '/bin',
  '/run/current-system/sw/bin',
];

function isZero(setting: string): boolean {
  try {
    return readFileSync(setting, 'latin1').trim() === '0';
  } catch {
    return false;
  }
}
