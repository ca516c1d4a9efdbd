import { checkedSandbox } from '../client/checked-params.ts';
import { refused } from '../files/errors.ts';
import type { FileSystem } from '../files/file-system.ts';
import { LOCAL_FILE_SYSTEM } from '../files/local/local-file-system.ts';
import type { SearchRequest, SearchResult } from '../files/search/query.ts';
import type { LazySpawner } from '../process/spawn/lazy-spawner.ts';
import type { SpawnSpec } from '../process/spawn/spawner.ts';
import { sandboxIsLikely } from '../sandbox/prediction.ts';
import { type FileSandbox, type ProgramSandbox, SandboxEnforcer } from '../sandbox/sandbox-enforcer.ts';

/** Enforces on this machine what callers want programs and file operations restricted to. Loaded when that is first needed. */
export class LocalConfinement {
  readonly #confinement: SandboxEnforcer;

  /** `spawner` starts what enforces it. */
  constructor(spawner: LazySpawner) {
    const isLikely = () => spawner.pty.available && sandboxIsLikely(process.env.PATH ?? '');
    this.#confinement = new SandboxEnforcer(
      null,
      async () => {
        const { createSandbox } = await import('../sandbox/create-sandbox.ts');
        return createSandbox(await spawner.prepare(), process.env);
      },
      isLikely,
    );
  }

  /** Whether anything can be enforced here, as far as is known. */
  get usable(): boolean {
    return this.#confinement.usable;
  }

  program(sandbox: unknown, spec: SpawnSpec): ProgramSandbox {
    return this.#confinement.program(checkedSandbox(sandbox), spec);
  }

  files(sandbox: unknown, access: 'read' | 'write' | 'make'): FileSystem {
    const confined = this.#files(sandbox, access === 'read' ? 'read' : 'write');
    return confined?.fileSystem ?? LOCAL_FILE_SYSTEM;
  }

  /** Null where every file may be searched. */
  search(sandbox: unknown): ((request: SearchRequest, signal: AbortSignal) => Promise<SearchResult>) | null {
    return this.#files(sandbox, 'read')?.search ?? null;
  }

  /** For what cannot be sandboxed: refuses where a part of the disk is hidden. */
  requireAllReadable(sandbox: unknown, method: string): void {
    if (this.#files(sandbox, 'read') === null) return;
    throw refused(
      `${method} cannot be confined to a part of the disk; ask for it without a sandbox that hides files`,
    );
  }

  close(): Promise<void> {
    return this.#confinement.close();
  }

  #files(sandbox: unknown, access: 'read' | 'write'): FileSandbox | null {
    return this.#confinement.files(null).of(checkedSandbox(sandbox), access);
  }
}
