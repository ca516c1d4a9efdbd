import { leaseFileSystem } from '../../files/file-system-wrappers.ts';
import type { PolicyFiles } from '../sandbox.ts';
import type { HelperFileSystem } from './wire/helper-file-system.ts';

/** A helper that an operation uses. */
export interface EnteredHelper {
  readonly files: HelperFileSystem;
  leave(): void;
}

/** Files through a helper. Each operation enters it before it begins, and leaves it at its end or when the file that it opened is closed. */
export function filesThrough(enter: () => Promise<EnteredHelper>): PolicyFiles {
  const fileSystem = leaseFileSystem(async () => {
    const helper = await enter();
    return { files: helper.files.fileSystem, release: () => helper.leave() };
  });
  return {
    fileSystem,
    search: async (...args) => {
      const helper = await enter();
      try {
        return await helper.files.search(...args);
      } finally {
        helper.leave();
      }
    },
  };
}
