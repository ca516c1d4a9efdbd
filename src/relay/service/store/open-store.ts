import { fileURLToPath } from 'node:url';
import { StartError } from '../../../listener/start-error.ts';
import type { Logger } from '../../../observability/log.ts';
import { MemoryStore } from './memory-store.ts';
import type { FileLock } from './registration-file.ts';
import type { Store } from './store.ts';

/**
 * Opens the configured store: `memory`, `file:///PATH`, `redis://…` or `rediss://…`. `fileLock` prevents a second relay from using the
 * same file. Throws StartError.
 */
export async function openStore(
  setting: string,
  log: Logger,
  fileLock: FileLock | null = null,
): Promise<Store> {
  if (setting === 'memory') return new MemoryStore();
  if (/^rediss?:\/\//.test(setting)) {
    const { RedisStore } = await import('./redis-store.ts');
    return await RedisStore.open(setting, log);
  }
  if (!setting.startsWith('file:///')) {
    throw new StartError('--store is not one of memory, file:///PATH and redis://HOST:PORT');
  }
  const { RegistrationFile } = await import('./registration-file.ts');
  const { file, known } = await RegistrationFile.open(pathOf(setting), log, fileLock);
  return new MemoryStore(file, undefined, known);
}

function pathOf(fileUrl: string): string {
  try {
    return fileURLToPath(fileUrl);
  } catch {
    throw new StartError(
      '--store is not a valid file:///PATH: write a % in it as %25, and do not escape a /',
    );
  }
}
