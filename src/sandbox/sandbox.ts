import type { Owner } from '../base/fair-shares.ts';
import type { FileSystem } from '../files/file-system.ts';
import type { SearchRequest, SearchResult } from '../files/search/query.ts';
import type { SpawnSpec } from '../process/spawn/spawner.ts';
import type { SandboxedLaunch } from '../process/start-program.ts';
import type { Proxied } from './linux/bwrap-command.ts';
import type { SandboxPolicy } from './policy/policy.ts';

/** Enforces policies on this machine. Refuses what it cannot enforce. */
export interface Sandbox {
  /** Whether policies can be enforced. Null until {@link check} or a start has shown it. */
  readonly works: boolean | null;
  /** Resolves when policies can be enforced. Rejects with the SandboxError that all other calls would fail with. */
  check(): Promise<void>;
  /** Prepares a sandbox for one program. */
  wrapProgram(
    spec: SpawnSpec,
    policy: SandboxPolicy,
    signal: AbortSignal,
    proxied?: Proxied | null,
  ): Promise<SandboxedLaunch>;
  /** The files under a policy that hides or protects some, for one owner. If the sandbox does not work, each operation fails. */
  files(policy: SandboxPolicy, owner?: Owner): PolicyFiles;
  /** Ends all pre-built sandboxes and file helpers. */
  close(): Promise<void>;
}

/** Files under a policy. */
export interface PolicyFiles {
  readonly fileSystem: FileSystem;
  search(request: SearchRequest, signal: AbortSignal): Promise<SearchResult>;
}
