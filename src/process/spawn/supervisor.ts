import { withTimeout } from '../../base/with-timeout.ts';
import { KILL_TREE_DEADLINE_MS } from '../limits.ts';
import { TreeKiller } from '../tree/kill-tree.ts';
import { trySignal } from '../tree/process-table.ts';
import type { RemovalList } from '../tree/removal-list.ts';
import { type StartWatchdog, Watchdog } from '../tree/watchdog.ts';
import { cancelled, describeLaunchFailure } from './launch-checks.ts';
import { type ChildParts, SpawnedChild } from './spawned-child.ts';
import type { Child, ExitStatus } from './spawner.ts';

/** Reads process tags and holds the tag of this server. */
interface ProcessTags {
  readonly serverTag: bigint;
  read(pid: number): bigint | null;
}

/** Tracks running programs for a spawner, kills them when it closes, and runs the watchdog that kills them if the server dies. */
export class Supervisor {
  readonly #tags: ProcessTags | null;
  readonly #killer: TreeKiller;
  readonly #watchdog: Watchdog;
  readonly #removals: RemovalList | null;
  readonly #living = new Set<SpawnedChild>();
  #closed = false;

  /** `removals` is null where nothing needs to be removed. */
  constructor(tags: ProcessTags | null, startWatchdog: StartWatchdog, removals: RemovalList | null = null) {
    this.#tags = tags;
    this.#killer = new TreeKiller((pid) => tags?.read(pid) ?? null);
    this.#removals = removals;
    this.#watchdog = new Watchdog(tags?.serverTag ?? null, startWatchdog, removals);
  }

  /** Must be called before every start, in the same turn. Throws SpawnError once closed and when there can be no watchdog. */
  prepareStart(): void {
    if (this.#closed) throw cancelled('the server is shutting down');
    try {
      this.#watchdog.ensureRunning();
    } catch (error) {
      throw describeLaunchFailure(error, 'the watchdog process');
    }
  }

  /**
   * Takes over a started program, in the same turn as its start. The spawner must call `exited` in the turn in which it reaps the
   * program.
   */
  adopt(parts: ChildParts): { readonly child: Child; readonly exited: (status: ExitStatus) => void } {
    const { pid, tag } = parts.tree;
    const child = new SpawnedChild(parts, this.#killer, () => this.#watchdog.forgetGroup(pid));
    this.#living.add(child);
    if (tag === null) this.#watchdog.watchGroup(pid);
    const exited = (status: ExitStatus) => {
      this.#living.delete(child);
      // The kernel does not reuse the number of a group that still has a member.
      if (tag === null && !trySignal(-pid, 0)) this.#watchdog.forgetGroup(pid);
      child.exited(status);
    };
    return { child, exited };
  }

  /** See SandboxCalls. The entry is created before the first program starts. */
  removeAfterDeath(path: string, kind: 'directory' | 'file'): () => void {
    this.prepareStart();
    return this.#removals?.add(path, kind) ?? (() => {});
  }

  /** Kills all programs and their descendants and dismisses the watchdog. Resolves when they are gone or cannot be killed. */
  async close(): Promise<void> {
    this.#closed = true;
    const exits = [...this.#living].map((child) => new Promise<unknown>((resolve) => child.onExit(resolve)));
    await Promise.all([...this.#living].map((child) => child.killTree()));
    if (this.#tags !== null) await this.#killer.killAll(this.#tags.serverTag);
    await withTimeout(Promise.all(exits), KILL_TREE_DEADLINE_MS);
    await this.#watchdog.close();
  }
}
