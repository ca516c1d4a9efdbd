import { closeSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';

interface NewFile {
  /** The mode of the file, less the umask. */
  readonly mode: number;
  /** Sets further attributes of the new file before it replaces the old one. */
  prepare?(descriptor: number): void;
}

/**
 * Writes or replaces a small file in one step: readers see the old text or the new one. A failure changes nothing, and throws the error
 * of the system.
 */
export function replaceFile(path: string, text: string, { mode, prepare }: NewFile): void {
  const draft = `${path}.${process.pid}.tmp`;
  // The leftover of a killed process with the same id. It must not be written to: it may be a symbolic link.
  rmSync(draft, { force: true });
  const descriptor = openSync(draft, 'wx', mode);
  try {
    try {
      writeFileSync(descriptor, text);
      prepare?.(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(draft, path);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}
