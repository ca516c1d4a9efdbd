import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { bundleFileHelper } from '../../../../scripts/bundle-file-helper.mjs';
import type { FileSystem, Waiting } from '../../../../src/files/file-system.ts';
import { type NativePath, nativePathOfText } from '../../../../src/files/native-path.ts';
import { createSpawner } from '../../../../src/process/spawn/create-spawner.ts';
import type { Spawner } from '../../../../src/process/spawn/spawner.ts';
import type { SandboxProfile } from '../../../../src/protocol/sandbox.ts';
import type { HelperProgram } from '../../../../src/sandbox/file-helper-program.ts';
import { SandboxedFiles, type SandboxedFilesOptions } from '../../../../src/sandbox/files/sandboxed-files.ts';
import { Bwrap } from '../../../../src/sandbox/linux/bwrap.ts';
import { policyOf } from '../../../../src/sandbox/policy/normalize.ts';
import type { SandboxPolicy } from '../../../../src/sandbox/policy/policy.ts';
import { outcome } from '../../files/local/scratch.ts';

type Entries = Extract<
  Extract<SandboxProfile['permissions'], { type: 'managed' }>['file_system'],
  { type: 'restricted' }
>['entries'];

export type Entry = Entries[number];

/** The fixture of helper tests: a spawner, the helper's program built from the current sources, and a workspace for each test. */
export class HelperFixture {
  #folder = '';
  #built = '';
  #spawner: Spawner | null = null;
  #pools: SandboxedFiles[] = [];

  constructor() {
    beforeAll(async () => {
      this.#built = mkdtempSync(join(tmpdir(), 'file-helper-'));
      await bundleFileHelper({ source: join(ROOT, 'src'), extension: 'ts', folder: this.#built });
      this.#spawner = await createSpawner();
    });
    afterAll(async () => {
      await this.#spawner?.close();
      rmSync(this.#built, { recursive: true });
    });
    beforeEach(() => {
      this.#folder = realpathSync(mkdtempSync(join(tmpdir(), 'sandboxed-')));
      mkdirSync(join(this.#folder, 'ws'));
    });
    afterEach(async () => {
      await Promise.all(this.#pools.splice(0).map((pool) => pool.close()));
      rmSync(this.#folder, { recursive: true, force: true });
    });
  }

  get spawner(): Spawner {
    return this.#spawner!;
  }

  get program(): HelperProgram {
    return {
      main: join(this.#built, 'file-helper.cjs'),
      searchThread: join(this.#built, 'file-search-thread.cjs'),
    };
  }

  /** A path in the folder of the test; `ws` is the workspace. */
  readonly at = (name: string): NativePath =>
    nativePathOfText(name.startsWith('/') ? name : join(this.#folder, name));

  /** A pool that ends with the test. */
  pool(options: Partial<SandboxedFilesOptions> = {}): SandboxedFiles {
    const pool = this.lastingPool(options);
    this.#pools.push(pool);
    return pool;
  }

  /** A pool that the caller closes. */
  lastingPool(options: Partial<SandboxedFilesOptions> = {}): SandboxedFiles {
    return new SandboxedFiles({
      calls: this.spawner.sandboxCalls!,
      spawner: this.spawner,
      bwrap: new Bwrap(this.spawner, process.env.PATH ?? '', process.arch as 'x64' | 'arm64'),
      architecture: process.arch as 'x64' | 'arm64',
      env: process.env,
      program: this.program,
      ...options,
    });
  }

  /** The policy of some entries with the workspace as the only project root. */
  policy(...entries: Entry[]): SandboxPolicy {
    return policyOf(
      {
        permissions: {
          type: 'managed',
          file_system: { type: 'restricted', entries },
          network: 'restricted',
        },
        cwd: `file://${this.at('ws')}`,
        workspaceRoots: [`file://${this.at('ws')}`],
        windowsSandboxLevel: 'disabled',
        useLegacyLandlock: false,
      },
      { cwd: null, tmpdir: undefined },
    );
  }

  /** An entry for a path in the folder of the test. */
  readonly entry = (name: string, access: Entry['access']): Entry => ({
    path: { type: 'path', path: `file://${this.at(name)}` },
    access,
  });

  readonly denyGlob = (pattern: string): Entry => ({
    path: { type: 'glob_pattern', pattern },
    access: 'deny',
  });

  /** The files of a new pool under a policy. */
  files(...entries: Entry[]): FileSystem {
    return this.pool().files(this.policy(...entries)).fileSystem;
  }
}

export const READ_ALL: Entry = { path: { type: 'special', value: { kind: 'root' } }, access: 'read' };
export const WRITE_WORKSPACE: Entry = {
  path: { type: 'special', value: { kind: 'project_roots' } },
  access: 'write',
};

export const FOLLOW = { followSymlinks: true } as const;
export const NO_FOLLOW = { followSymlinks: false } as const;

/** For writes that are never cancelled. */
export function waitingForever(): Waiting {
  return { signal: new AbortController().signal, onWait: () => {} };
}

/** The whole content of a file. */
export async function contentOf(files: FileSystem, path: NativePath): Promise<Buffer> {
  const content = await files.readFile(path, FOLLOW);
  try {
    const pieces: Buffer[] = [];
    for (;;) {
      const piece = Buffer.alloc(1024 * 1024);
      const length = await content.read(piece);
      pieces.push(piece.subarray(0, length));
      if (length < piece.length) return Buffer.concat(pieces);
    }
  } finally {
    await content.close();
  }
}

/** The errors for a read-only path and for a denied path. */
export const READ_ONLY = 'failed: Read-only file system (os error 30)';
export const DENIED = 'refused: Permission denied (os error 13)';

/** File operations by name in a fixture. Each returns its outcome. */
export function operationsAt(at: HelperFixture['at']) {
  const write = (files: FileSystem, name: string) =>
    outcome(files.writeFile(at(name), Buffer.from('new'), FOLLOW, waitingForever()));
  const read = async (files: FileSystem, name: string) => {
    let text = '';
    const said = await outcome(
      contentOf(files, at(name)).then((bytes) => {
        text = String(bytes);
      }),
    );
    return said === 'done' ? text : said;
  };
  const mkdir = (files: FileSystem, name: string, recursive: boolean) =>
    outcome(files.createDirectory(at(name), { ...FOLLOW, recursive }));
  const remove = (files: FileSystem, name: string, force = true) =>
    outcome(files.remove(at(name), { ...FOLLOW, recursive: true, force }));
  const names = async (files: FileSystem, name: string) =>
    (await files.readDirectory(at(name))).map((listed) => listed.name).sort();
  return { write, read, mkdir, remove, names };
}

const ROOT = join(import.meta.dirname, '../../../..');
