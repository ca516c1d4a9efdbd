import type { FileSystem } from './file-system.ts';

/** Files that are not at hand yet: each operation waits for them. Where they cannot be had, every operation fails with that error. */
export function deferFileSystem(get: () => Promise<FileSystem>): FileSystem {
  return {
    readFile: async (...args) => (await get()).readFile(...args),
    writeFile: async (...args) => (await get()).writeFile(...args),
    createDirectory: async (...args) => (await get()).createDirectory(...args),
    getMetadata: async (...args) => (await get()).getMetadata(...args),
    canonicalize: async (...args) => (await get()).canonicalize(...args),
    readDirectory: async (...args) => (await get()).readDirectory(...args),
    walk: async (...args) => (await get()).walk(...args),
    remove: async (...args) => (await get()).remove(...args),
    copy: async (...args) => (await get()).copy(...args),
    rename: async (...args) => (await get()).rename(...args),
    open: async (...args) => (await get()).open(...args),
  };
}
