import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import type { ExecutorFileSystem } from '../../src/client/backend.ts';

export interface FilesUnderTest {
  readonly files: ExecutorFileSystem;
  close(): Promise<void>;
}

/** What tests of a file system play in: the file system, and a folder for each test, seen from outside. */
export class FileScene {
  #underTest: FilesUnderTest | null = null;
  #folder = '';

  constructor(open: () => Promise<FilesUnderTest>) {
    beforeAll(async () => {
      this.#underTest = await open();
    });
    afterAll(() => this.#underTest?.close());
    beforeEach(() => {
      this.#folder = realpathSync(mkdtempSync(join(tmpdir(), 'file-suite-')));
    });
    afterEach(() => rmSync(this.#folder, { recursive: true }));
  }

  get files(): ExecutorFileSystem {
    return this.#underTest!.files;
  }

  readonly at = (path: string) => join(this.#folder, path);
  readonly uri = (path: string) => `file://${this.at(path)}`;
  readonly write = (path: string, content: string | Uint8Array = path) =>
    writeFileSync(this.at(path), content);
  readonly read = (path: string) => readFileSync(this.at(path), 'utf8');

  /** One of everything: `file`, `dir/inner`, and links to both and to nowhere. */
  readonly furnish = () => {
    this.write('file', 'content');
    mkdirSync(this.at('dir'));
    this.write('dir/inner', 'deep');
    symlinkSync('file', this.at('to-file'));
    symlinkSync('dir', this.at('to-dir'));
    symlinkSync('nowhere', this.at('to-nothing'));
  };
}

/** How a missing file is told. */
export const NOT_FOUND = {
  kind: 'notFound',
  code: -32004,
  message: 'No such file or directory (os error 2)',
};
