import { access, constants, lstat, realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Returns the real path of an executable file. Rejects with the system's error, and with EISDIR for anything else than a file. */
export async function executableFile(path: string): Promise<string> {
  const real = await realpath(path);
  await access(real, constants.X_OK);
  if ((await stat(real)).isFile()) return real;
  throw Object.assign(new Error(`${path} is not a file`), { code: 'EISDIR' });
}

/**
 * Says which part of an absolute path users other than root and this one could replace, or null. In a sticky directory only the owner
 * can replace an entry.
 */
export async function weaknessOf(path: string): Promise<string | null> {
  for (let part = path; ; part = dirname(part)) {
    const entry = await lstat(part);
    const { uid, mode } = entry;
    const sticky = part !== path && (mode & STICKY) !== 0;
    if (uid !== 0 && uid !== process.geteuid?.()) return `${part} belongs to another user`;
    // The mode of a link has no effect.
    const writable = (mode & WRITABLE_BY_OTHERS) !== 0 && !entry.isSymbolicLink();
    if (writable && !sticky) return `${part} can be changed by other users`;
    if (part === dirname(part)) return null;
  }
}

const STICKY = 0o1000;
const WRITABLE_BY_OTHERS = 0o022;
