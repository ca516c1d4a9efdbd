import { setTimeout as delay } from 'node:timers/promises';
import { KILL_TREE_DEADLINE_MS, SWEEP_RETRY_MAX_MS, SWEEP_RETRY_MIN_MS } from '../limits.ts';
import { killProcess, listPids, type ProcessRow, readProcess, trySignal } from './process-table.ts';
import { TaggedProcessSweep } from './tagged-process-sweep.ts';

/** Identifies the processes that descend from one started program. */
export interface ProcessTree {
  /** The program's pid, which is also the id of its session and process group. */
  readonly pid: number;
  /** Every descendant carries this tag; null where tagging is not possible. */
  readonly tag: bigint | null;
  /** True once the program has been reaped. After that its pid may belong to another process, unless the group still has members. */
  reaped: boolean;
}

/** Signals and kills process trees, and never a process outside of them. */
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

  /** Kills the group immediately, then every process that left it. Resolves when nothing is left that reacts to SIGKILL. */
  async kill(tree: ProcessTree): Promise<void> {
    if (tree.tag === null) {
      // The walk starts synchronously, because it must see the parents before the group is gone.
      const walk = killDescendants(tree.pid, tree.reaped);
      if (!tree.reaped) trySignal(-tree.pid, 'SIGKILL');
      return walk;
    }
    if (!tree.reaped) trySignal(-tree.pid, 'SIGKILL');
    return this.#sweep.kill(tree.tag);
  }

  /** Kills every process of this server, including those of programs that are long forgotten. */
  killAll(tag: bigint): Promise<void> {
    return this.#sweep.kill(tag);
  }

  #groupOutlivesLeader(tree: ProcessTree): boolean {
    return tree.tag === null ? orphanedGroupExists(tree.pid) : this.#sweep.hasGroupMember(tree.tag, tree.pid);
  }
}

/**
 * Kills the descendants of a program, found by the parent, session and start time of each process, where tagging is not possible.
 * Does not find a daemon that had both left the session and lost its parent before the call.
 */
async function killDescendants(root: number, rootReaped: boolean): Promise<void> {
  const descendants = new DescendantSet(root, rootReaped);
  const deadline = performance.now() + KILL_TREE_DEADLINE_MS;
  for (let wait = SWEEP_RETRY_MIN_MS; ; wait = Math.min(wait * 2, SWEEP_RETRY_MAX_MS)) {
    const alive = descendants.alive();
    for (const { pid } of alive) killProcess(pid);
    if (alive.length === 0 || performance.now() > deadline) return;
    await delay(wait);
  }
}

/** Whether the process group of a reaped program still has a member; false when its pid is in use again. */
function orphanedGroupExists(leader: number): boolean {
  const rows = readAll();
  return (
    !rows.has(leader) && [...rows.values()].some((row) => row.group === leader && row.session === leader)
  );
}

/** The known descendants of a program, including those whose parents are gone. */
class DescendantSet {
  readonly #root: number;
  readonly #rootReaped: boolean;
  /** Pid to start time. */
  readonly #members = new Map<number, string>();

  constructor(root: number, rootReaped: boolean) {
    this.#root = root;
    this.#rootReaped = rootReaped;
  }

  /** Adds new descendants and returns all that are alive. */
  alive(): ProcessRow[] {
    const rows = readAll();
    const session = this.#rootPidReused(rows) ? null : this.#root;
    let grown = true;
    while (grown) {
      grown = false;
      for (const row of rows.values()) {
        if (this.#isMember(row)) continue;
        const parent = rows.get(row.parent);
        const related = row.session === session || (parent !== undefined && this.#isMember(parent));
        if (!related) continue;
        this.#members.set(row.pid, row.startTime);
        grown = true;
      }
    }
    return [...rows.values()].filter((row) => this.#isMember(row));
  }

  #isMember(row: ProcessRow): boolean {
    return this.#members.get(row.pid) === row.startTime;
  }

  #rootPidReused(rows: ReadonlyMap<number, ProcessRow>): boolean {
    const row = rows.get(this.#root);
    if (row === undefined) return false;
    return this.#rootReaped || (this.#members.has(row.pid) && !this.#isMember(row));
  }
}

function readAll(): Map<number, ProcessRow> {
  const rows = listPids().map(readProcess);
  return new Map(rows.filter((row) => row !== null).map((row) => [row.pid, row]));
}
