import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  type Stats,
  statSync,
} from 'node:fs';
import { TextDecoder } from 'node:util';
import { RunError } from '../failures.ts';
import { cannotReadFile, cannotWriteFile } from '../file-failures.ts';
import { replaceFile } from '../replace-file.ts';

/** A larger file is not a configuration that a person has written. */
const MAX_CONFIG_BYTES = 16 * 1024 * 1024;

export function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
  } catch (error) {
    throw cannotWriteFile(folder, error);
  }
}

/** Reads a configuration. Throws RunError for what is not a regular file with UTF-8 text: it could not be written back as it was. */
export function readConfig(file: string): string {
  let bytes: Buffer;
  try {
    // Opening a pipe must not wait for its writer.
    const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const facts = fstatSync(descriptor);
      if (!facts.isFile()) throw new Error('it is not a regular file');
      if (facts.size > MAX_CONFIG_BYTES) throw new Error(`it has more than ${MAX_CONFIG_BYTES} bytes`);
      bytes = readFileSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    throw cannotReadFile(file, error);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new RunError(`${file} is not UTF-8 text; correct it first`);
  }
}

/** Replaces the file in one step. It keeps its permissions and its owner. */
export function replaceConfig(file: string, text: string): void {
  try {
    const facts = statSync(file, { throwIfNoEntry: false });
    if (facts === undefined) replaceFile(file, text, { mode: 0o644 });
    else replaceFile(file, text, { mode: 0o600, prepare: (descriptor) => takeOver(descriptor, facts) });
  } catch (error) {
    throw cannotWriteFile(file, error);
  }
}

function takeOver(descriptor: number, { uid, gid, mode }: Stats): void {
  const own = fstatSync(descriptor);
  if (own.uid !== uid || own.gid !== gid) {
    try {
      fchownSync(descriptor, uid, gid);
    } catch {
      throw new Error(
        `it belongs to the user ${uid} and the group ${gid}, which cannot be kept; run the command as that user`,
      );
    }
  }
  fchmodSync(descriptor, mode & 0o7777);
}
