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

/** A directory of its own in `place` for every test of the file, removed afterwards. */
export class Scratch {
  #root = '';

  constructor(place = tmpdir()) {
    beforeEach(() => {
      this.#root = realpathSync(mkdtempSync(join(place, 'files-')));
    });
    afterEach(() => {
      rmSync(this.#root, { recursive: true });
    });
  }

  /** A path in the directory; one that begins with a slash stays as it is. */
  at(name: string): NativePath {
    return nativePathOfText(name.startsWith('/') ? name : join(this.#root, name));
  }

  fifo(name: string): NativePath {
    execFileSync('mkfifo', [this.at(name)]);
    return this.at(name);
  }

  /**
   * Puts one of everything into a directory that exists: files, directories, and links that lead to a file, to a directory,
   * nowhere and to themselves.
   */
  furnish(place = '.'): void {
    const at = (name: string) => this.at(join(place, name));
    writeFileSync(at('a.txt'), 'hello');
    mkdirSync(at('dir/sub'), { recursive: true });
    writeFileSync(at('dir/sub/f'), 'x');
    mkdirSync(at('empty'));
    symlinkSync('a.txt', at('lfile'));
    symlinkSync('dir', at('ldir'));
    symlinkSync('nowhere', at('dangling'));
    symlinkSync('loop', at('loop'));
    this.fifo(join(place, 'fifo'));
  }

  /** What this process holds open in the directory. */
  heldOpen(): string[] {
    return readdirSync('/proc/self/fd')
      .map(linkText)
      .filter((path) => path.startsWith(this.#root));
  }
}

/** How a promise fails, as `kind: message`; `done` when it does not. */
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

/** A descriptor may be gone by the time it is looked at, as the one that lists them is. */
function linkText(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return '';
  }
}
