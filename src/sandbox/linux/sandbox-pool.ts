import { FairShares, type SharedUnits } from '../../base/fair-shares.ts';
import type { Child, SandboxCalls, SpawnSpec } from '../../process/spawn/spawner.ts';
import { discardChild } from '../../process/start-program.ts';
import type { MountPlan } from '../mounts/mount-plan.ts';
import { MountTable } from '../mounts/mount-table.ts';
import { Instructions } from './instructions.ts';
import {
  DESCRIPTORS_PER_POOLED_SANDBOX,
  MAX_POOLED_SANDBOXES,
  MAX_PREBUILD_FAILURES,
  POOLED_SANDBOX_IDLE_MS,
} from './limits.ts';

/** A bwrap that has built most of its sandbox, or is still building, and waits for the instructions to complete it. */
export interface PrebuiltSandbox {
  readonly child: Child;
  readonly instructions: Instructions;
}

/** Returns how to start a bwrap that inherits these descriptors. */
type SpecOf = (inherited: Instructions['inherited']) => SpawnSpec;

/**
 * A pool of pre-built sandboxes. While a program runs, the pool builds a sandbox for the next program under the same plan, so that its
 * start does not wait for that. The pool ends a sandbox that stays unused for a while. No sandbox keeps this process alive. A pre-built
 * sandbox depends on its plan and not on the program: its launcher is an empty file until a program takes it.
 *
 * Mounts keep showing the files of the time when the sandbox was built. The caller of `take` must check that the plan still holds and that
 * the mounts are those of the plan. The pool checks that nothing else was mounted or unmounted since.
 */
export class SandboxPool {
  readonly #spawn: (spec: SpawnSpec) => Promise<Child>;
  readonly #calls: SandboxCalls;
  readonly #mounts: MountTable;
  readonly #descriptors: FairShares;
  /** Least recently used first. */
  readonly #entries = new Set<PoolEntry>();
  /** Consecutive failures per plan, although the plan held. */
  readonly #failures = new WeakMap<MountPlan, number>();
  /** Starts and ends in progress. */
  readonly #pending = new Set<Promise<void>>();
  #closed = false;

  /** `descriptors` are those that all sessions share. */
  constructor(
    spawn: (spec: SpawnSpec) => Promise<Child>,
    calls: SandboxCalls,
    descriptors = new FairShares(Number.POSITIVE_INFINITY),
  ) {
    this.#spawn = spawn;
    this.#descriptors = descriptors;
    this.#calls = calls;
    this.#mounts = new MountTable(calls);
  }

  /** Removes and returns a sandbox for this plan and kind, or null. The caller must end it. */
  take(plan: MountPlan, kind: string): PrebuiltSandbox | null {
    this.#dropOutdated();
    const entry = this.#find(plan, kind);
    if (entry === undefined || entry.sandbox === null) return null;
    this.#forget(entry);
    return entry.sandbox;
  }

  /** Starts building a sandbox for this plan and kind, unless there is one. */
  prebuild(plan: MountPlan, kind: string, specOf: SpecOf): void {
    if (this.#closed || this.#failsTooOften(plan) || this.#find(plan, kind) !== undefined) return;
    this.#dropOutdated();
    if (!this.#mounts.watch()) return;
    // The pool counts as one owner. Programs do not wait for its sandboxes, so it takes no more than its share.
    const descriptors = this.#descriptors.take(this, DESCRIPTORS_PER_POOLED_SANDBOX);
    if (descriptors === null) return;
    const entry: PoolEntry = { plan, kind, descriptors, sandbox: null, idle: undefined };
    this.#entries.add(entry);
    const [oldest] = this.#entries;
    if (this.#entries.size > MAX_POOLED_SANDBOXES && oldest !== undefined) this.#end(oldest);
    setImmediate(() => this.#track(this.#start(entry, specOf)));
  }

  /** Records that a program has entered a sandbox from the pool. */
  noteSuccess(plan: MountPlan): void {
    this.#failures.delete(plan);
  }

  /** Records that a sandbox from the pool failed although its plan holds. After a few in a row, nothing is pre-built for the plan. */
  noteFailure(plan: MountPlan): void {
    this.#failures.set(plan, (this.#failures.get(plan) ?? 0) + 1);
  }

  /** Ends the sandboxes of a plan that no longer holds. */
  drop(plan: MountPlan): void {
    for (const entry of this.#entries) if (entry.plan === plan) this.#end(entry);
  }

  /** Ends all sandboxes. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const entry of this.#entries) this.#end(entry);
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  async #start(entry: PoolEntry, specOf: SpecOf): Promise<void> {
    if (!this.#entries.has(entry)) return;
    let instructions: Instructions | null = null;
    try {
      instructions = new Instructions(this.#calls);
      const child = await this.#spawn(specOf(instructions.inherited));
      instructions.closeReadEnd();
      this.#keep(entry, { child, instructions });
    } catch {
      // The next program starts its own sandbox and reports the error.
      this.noteFailure(entry.plan);
      this.#end(entry);
      instructions?.close();
    }
  }

  #keep(entry: PoolEntry, sandbox: PrebuiltSandbox): void {
    if (!this.#entries.has(entry)) {
      this.#track(endPrebuilt(sandbox));
      return;
    }
    entry.sandbox = sandbox;
    entry.idle = setTimeout(() => this.#end(entry), POOLED_SANDBOX_IDLE_MS).unref();
    this.#calls.keepLoopAlive(sandbox.child.pid, false);
    sandbox.child.onExit(() => {
      if (!this.#entries.has(entry)) return;
      this.noteFailure(entry.plan);
      this.#end(entry);
    });
  }

  /** Does not find an entry that was ended during its start; another one like it may exist by now. */
  #find(plan: MountPlan, kind: string): PoolEntry | undefined {
    for (const entry of this.#entries) if (entry.plan === plan && entry.kind === kind) return entry;
    return undefined;
  }

  #failsTooOften(plan: MountPlan): boolean {
    return (this.#failures.get(plan) ?? 0) >= MAX_PREBUILD_FAILURES;
  }

  #dropOutdated(): void {
    if (this.#entries.size > 0 && this.#mounts.changed()) for (const entry of this.#entries) this.#end(entry);
  }

  #end(entry: PoolEntry): void {
    if (!this.#entries.has(entry)) return;
    this.#forget(entry);
    if (entry.sandbox !== null) this.#track(endPrebuilt(entry.sandbox));
  }

  #forget(entry: PoolEntry): void {
    this.#entries.delete(entry);
    entry.descriptors.leave(this);
    if (this.#entries.size === 0) this.#mounts.unwatch();
    clearTimeout(entry.idle);
    if (entry.sandbox !== null) this.#calls.keepLoopAlive(entry.sandbox.child.pid, true);
  }

  #track(work: Promise<void>): void {
    const tracked = work.finally(() => this.#pending.delete(tracked));
    this.#pending.add(tracked);
  }
}

interface PoolEntry {
  readonly plan: MountPlan;
  readonly kind: string;
  readonly descriptors: SharedUnits;
  /** Null while it starts. */
  sandbox: PrebuiltSandbox | null;
  idle: NodeJS.Timeout | undefined;
}

/** Kills bwrap before closing its pipe, because bwrap continues at the end of the pipe. */
async function endPrebuilt({ child, instructions }: PrebuiltSandbox): Promise<void> {
  await discardChild(child);
  instructions.close();
}
