import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Creates a folder and its missing parents, all with this mode. A folder that exists is not an error. Unlike `mkdir` with
 * `recursive`, it fails where no folder can be created although the parent exists, such as below /proc. Node retries there without
 * end.
 */
export async function createFolder(path: string, mode: number): Promise<void> {
  const missing: string[] = [];
  let current = path;
  while (!(await createUnlessParentMissing(current, mode))) {
    missing.push(current);
    current = dirname(current);
  }
  for (const folder of missing.reverse()) await create(folder, mode);
}

async function createUnlessParentMissing(path: string, mode: number): Promise<boolean> {
  try {
    await create(path, mode);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(path) === path) throw error;
    return false;
  }
}

async function create(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (error) {
    const found = await stat(path).catch(() => null);
    if (!found?.isDirectory()) throw error;
  }
}
