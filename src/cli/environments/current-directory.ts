import { readlinkSync } from 'node:fs';

/**
 * The directory for which `use` may have chosen an environment. If it was deleted, this is the path that it had, so that a command which
 * needs no directory uses the same environment as before.
 */
export function currentDirectory(): string {
  try {
    return process.cwd();
  } catch (error) {
    const path = deletedDirectory();
    if (path === null) throw error;
    return path;
  }
}

/** The kernel appends a mark to the path of a deleted directory: proc_pid_cwd(5). Null where it does not. */
function deletedDirectory(): string | null {
  try {
    const path = readlinkSync('/proc/self/cwd');
    return path.endsWith(DELETED) ? path.slice(0, -DELETED.length) : null;
  } catch {
    return null;
  }
}

const DELETED = ' (deleted)';
