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

/** The file system under test, and a directory for each test as Node sees it. */
export class FileFixture {
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
    afterEach(() => rmSync(this.#folder, { recursive: true, maxRetries: 5 }));
  }

  get files(): ExecutorFileSystem {
    return this.#underTest!.files;
  }

  readonly at = (path: string) => join(this.#folder, path);
  readonly uri = (path: string) => `file://${this.at(path)}`;
  readonly write = (path: string, content: string | Uint8Array = path) =>
    writeFileSync(this.at(path), content);
  readonly read = (path: string) => readFileSync(this.at(path), 'utf8');

  /** Creates one of everything: `file`, `dir/inner`, and links to both and to a missing file. */
  readonly populate = () => {
    this.write('file', 'content');
    mkdirSync(this.at('dir'));
    this.write('dir/inner', 'deep');
    symlinkSync('file', this.at('to-file'));
    symlinkSync('dir', this.at('to-dir'));
    symlinkSync('nowhere', this.at('to-nothing'));
  };
}

/** The error for a missing file. */
export const NOT_FOUND = {
  kind: 'notFound',
  code: -32004,
  message: 'No such file or directory (os error 2)',
};
