import { withTimeout } from '../../base/with-timeout.ts';
import { KILL_TREE_DEADLINE_MS } from '../limits.ts';
import { Guard, type StartGuard } from '../tree/guard.ts';
import { TreeKiller } from '../tree/kill-tree.ts';
import { trySignal } from '../tree/process-table.ts';
import { cancelled } from './launch-checks.ts';
import { type ChildParts, SpawnedChild } from './spawned-child.ts';
import type { Child, ExitStatus } from './spawner.ts';

/** Where brands are read, and the tag of those of this server. */
export interface Branding {
  readonly tag: bigint;
  read(pid: number): bigint | null;
}

/** Looks after started programs for a spawner: knows which live, guards them against the server's death and ends them with it. */
export class Supervisor {
  readonly #branding: Branding | null;
  readonly #killer: TreeKiller;
  readonly #guard: Guard;
  readonly #living = new Set<SpawnedChild>();
  #closed = false;

  constructor(branding: Branding | null, startGuard: StartGuard) {
    this.#branding = branding;
    this.#killer = new TreeKiller((pid) => branding?.read(pid) ?? null);
    this.#guard = new Guard(branding?.tag ?? null, startGuard);
  }

  /** Must precede every start, in the same turn. Throws SpawnError once closed. */
  prepareStart(): void {
    if (this.#closed) throw cancelled('the server is shutting down');
    this.#guard.ensureRunning();
  }

  /**
   * Takes a started program into care, in the same turn as its start. The spawner must call `exited` in the turn in which it has
   * reaped it.
   */
  adopt(parts: ChildParts): { readonly child: Child; readonly exited: (status: ExitStatus) => void } {
    const { pid, brand } = parts.tree;
    const child = new SpawnedChild(parts, this.#killer, () => this.#guard.forgetGroup(pid));
    this.#living.add(child);
    if (brand === null) this.#guard.watchGroup(pid);
    const exited = (status: ExitStatus) => {
      this.#living.delete(child);
      // A group that has a member left keeps its number from being used again.
      if (brand === null && !trySignal(-pid, 0)) this.#guard.forgetGroup(pid);
      child.exited(status);
    };
    return { child, exited };
  }

  /** See EnclosingCalls. */
  removeAfterDeath(path: string, kind: 'directory' | 'file'): void {
    // What is to be removed comes to be before the first program does.
    if (!this.#closed) this.#guard.ensureRunning();
    this.#guard.removeAfterDeath(path, kind);
  }

  forgetRemoval(path: string): void {
    this.#guard.forgetRemoval(path);
  }

  /** Kills all programs and their descendants and dismisses the guard. Resolves when they are gone or cannot be killed. */
  async close(): Promise<void> {
    this.#closed = true;
    const exits = [...this.#living].map((child) => new Promise<unknown>((resolve) => child.onExit(resolve)));
    await Promise.all([...this.#living].map((child) => child.killTree()));
    if (this.#branding !== null) await this.#killer.killAll(this.#branding.tag);
    await withTimeout(Promise.all(exits), KILL_TREE_DEADLINE_MS);
    await this.#guard.close();
  }
}
