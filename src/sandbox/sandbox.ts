import type { FileSystem } from '../files/file-system.ts';
import type { SearchRequest, SearchResult } from '../files/search/query.ts';
import type { SpawnSpec } from '../process/spawn/spawner.ts';
import type { SandboxedLaunch } from '../process/start-program.ts';
import type { Proxied } from './linux/bwrap-command.ts';
import type { SandboxPolicy } from './policy/policy.ts';

/** What enforces policies on this machine. Whatever it cannot enforce it refuses; nothing runs or is touched without it. */
export interface Sandbox {
  /** Whether policies can be enforced here, as far as is known: by {@link check}, or by what was done. Null before. */
  readonly works: boolean | null;
  /** Resolves when policies can be enforced here. Rejects with the SandboxError that everything else would fail with. */
  check(): Promise<void>;
  /** Makes a sandbox for one program. */
  wrapProgram(
    spec: SpawnSpec,
    policy: SandboxPolicy,
    signal: AbortSignal,
    proxied?: Proxied | null,
  ): Promise<SandboxedLaunch>;
  /** The files that a policy leaves; for policies that hide or protect some. Where they cannot be had each operation fails. */
  files(policy: SandboxPolicy): PolicyFiles;
  /** Ends everything that is left. */
  close(): Promise<void>;
}

/** Files under a policy. */
export interface PolicyFiles {
  readonly fileSystem: FileSystem;
  search(request: SearchRequest, signal: AbortSignal): Promise<SearchResult>;
}
