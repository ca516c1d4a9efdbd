import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { FileError } from '../../../../src/files/errors.ts';
import { type NativePath, nativePathOfText } from '../../../../src/files/native-path.ts';

/** A directory in `parent` for every test of the file, removed afterwards. */
export class Scratch {
  #root = '';

  constructor(parent = tmpdir()) {
    beforeEach(() => {
      this.#root = realpathSync(mkdtempSync(join(parent, 'files-')));
    });
    afterEach(() => {
      rmSync(this.#root, { recursive: true });
    });
  }

  /** A path in the directory. An absolute path stays as it is. */
  at(name: string): NativePath {
    return nativePathOfText(name.startsWith('/') ? name : join(this.#root, name));
  }

  fifo(name: string): NativePath {
    execFileSync('mkfifo', [this.at(name)]);
    return this.at(name);
  }

  /**
   * Creates one of everything in an existing directory: files, directories, and links to a file, to a directory, to a missing file
   * and to themselves.
   */
  populate(parent = '.'): void {
    const at = (name: string) => this.at(join(parent, name));
    writeFileSync(at('a.txt'), 'hello');
    mkdirSync(at('dir/sub'), { recursive: true });
    writeFileSync(at('dir/sub/f'), 'x');
    mkdirSync(at('empty'));
    symlinkSync('a.txt', at('lfile'));
    symlinkSync('dir', at('ldir'));
    symlinkSync('nowhere', at('dangling'));
    symlinkSync('loop', at('loop'));
    this.fifo(join(parent, 'fifo'));
  }

  /** The files in the directory that this process has open. */
  openFiles(): string[] {
    return readdirSync('/proc/self/fd')
      .map(linkText)
      .filter((path) => path.startsWith(this.#root));
  }
}

/** The error of a promise as `kind: message`; `done` when it resolves. */
export async function outcome(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return 'done';
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    return `${error.kind}: ${error.message}`;
  }
}

export const NO_ENTRY = 'notFound: No such file or directory (os error 2)';
export const EXISTS = 'failed: File exists (os error 17)';
export const NOT_A_DIRECTORY = 'failed: Not a directory (os error 20)';
export const IS_A_DIRECTORY = 'failed: Is a directory (os error 21)';
export const NOT_EMPTY = 'failed: Directory not empty (os error 39)';
export const TOO_LONG = 'failed: Filename too long (os error 36)';
export const LINK_LOOP = 'failed: Symbolic link loop (os error 40)';
export const NO_DEVICE = 'failed: No such device or address (os error 6)';
export const LONG_NAME = 'n'.repeat(300);

/** A descriptor may be closed before it is read, like the one that lists them. */
function linkText(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return '';
  }
}
