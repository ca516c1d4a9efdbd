import { killDescendants, orphanedGroupExists } from './descendant-walk.ts';
import { trySignal } from './process-table.ts';
import { TaggedProcessSweep } from './tagged-process-sweep.ts';

/** What identifies the processes that descend from one started program. */
export interface ProcessTree {
  /** The program's pid, and so that of its session and process group. */
  readonly pid: number;
  /** Carried by every descendant; null where tagging is not possible. */
  readonly tag: bigint | null;
  /** True once the program's exit status has been taken: from then on its pid, unless pinned by its group, may be a stranger's. */
  reaped: boolean;
}

/** Signals and kills process trees, never a process that is not part of them. */
export class TreeKiller {
  readonly #sweep: TaggedProcessSweep;

  constructor(readTag: (pid: number) => bigint | null) {
    this.#sweep = new TaggedProcessSweep(readTag);
  }

  /** Sends a signal to the program's process group. False when the group is gone. */
  signalGroup(tree: ProcessTree, signal: number): boolean {
    if (tree.reaped && !this.#groupOutlivesLeader(tree)) return false;
    return trySignal(-tree.pid, signal);
  }

  /** Kills the group at once, then whatever left it. Resolves when nothing is left that reacts to SIGKILL. */
  async kill(tree: ProcessTree): Promise<void> {
    if (tree.tag === null) {
      // The walk must see the parents before the group is gone; it begins synchronously.
      const walk = killDescendants(tree.pid, tree.reaped);
      if (!tree.reaped) trySignal(-tree.pid, 'SIGKILL');
      return walk;
    }
    if (!tree.reaped) trySignal(-tree.pid, 'SIGKILL');
    return this.#sweep.kill(tree.tag);
  }

  /** Kills every process of this server, those of programs that are long forgotten included. */
  killAll(tag: bigint): Promise<void> {
    return this.#sweep.kill(tag);
  }

  #groupOutlivesLeader(tree: ProcessTree): boolean {
    return tree.tag === null ? orphanedGroupExists(tree.pid) : this.#sweep.hasGroupMember(tree.tag, tree.pid);
  }
}
