import type { Child, SandboxCalls, SpawnSpec } from '../../process/spawn/spawner.ts';
import { discardChild } from '../../process/start-program.ts';
import type { MountPlan } from '../mounts/mount-plan.ts';
import { Instructions } from './instructions.ts';
import { MAX_RESERVE_FAILURES, RESERVE_IDLE_MS, SANDBOXES_IN_RESERVE } from './limits.ts';
import { MountTable } from './mount-table.ts';

/** A bwrap that has built its sandbox, or is about to, and waits for the word to complete it. */
export interface WaitingSandbox {
  readonly child: Child;
  readonly instructions: Instructions;
}

/** How a bwrap is started that finds these descriptors. */
type SpecOf = (inherited: Instructions['inherited']) => SpawnSpec;

/**
 * Has a sandbox built for the next program under a plan while the last one runs, so that its start does not wait for that. One that is not used for a while is ended, and none keeps this process alive. Each knows its plan
 * and nothing of the program that it will confine; what it is to execute is an empty file until then.
 *
 * What is mounted stays what it was when it was built. Whoever takes a sandbox has to make sure that the plan still holds, and that
 * the mounts are those of the plan; that nothing else was mounted or unmounted meanwhile is made sure of here.
 */
export class SandboxReserve {
  readonly #spawn: (spec: SpawnSpec) => Promise<Child>;
  readonly #calls: SandboxCalls;
  readonly #mounts: MountTable;
  /** The longest unused first. */
  readonly #spares = new Set<Spare>();
  /** How often in a row what was built for a plan came to nothing, though the plan held. */
  readonly #failures = new WeakMap<MountPlan, number>();
  /** What is being started or ended. */
  readonly #underWay = new Set<Promise<void>>();
  #closed = false;

  constructor(spawn: (spec: SpawnSpec) => Promise<Child>, calls: SandboxCalls) {
    this.#spawn = spawn;
    this.#calls = calls;
    this.#mounts = new MountTable(calls);
  }

  /** Null when there is none for this plan and kind. Whoever gets one has to see to its end. */
  take(plan: MountPlan, kind: string): WaitingSandbox | null {
    this.#dropOutdated();
    const spare = this.#find(plan, kind);
    if (spare === undefined || spare.waiting === null) return null;
    this.#forget(spare);
    return spare.waiting;
  }

  /** Sees to it that there is one for this plan and kind soon. */
  provide(plan: MountPlan, kind: string, specOf: SpecOf): void {
    if (this.#closed || this.#isUnsuited(plan) || this.#find(plan, kind) !== undefined) return;
    this.#dropOutdated();
    if (!this.#mounts.watch()) return;
    const spare: Spare = { plan, kind, waiting: null, idle: undefined };
    this.#spares.add(spare);
    const [oldest] = this.#spares;
    if (this.#spares.size > SANDBOXES_IN_RESERVE && oldest !== undefined) this.#end(oldest);
    setImmediate(() => this.#track(this.#start(spare, specOf)));
  }

  /** A program has entered a sandbox that was taken. */
  noteSuccess(plan: MountPlan): void {
    this.#failures.delete(plan);
  }

  /**
   * A sandbox for this plan came to nothing, though the plan holds. After a few of these in a row each program under it waits for its
   * own.
   */
  noteFailure(plan: MountPlan): void {
    this.#failures.set(plan, (this.#failures.get(plan) ?? 0) + 1);
  }

  /** Ends those for a plan that does not hold any more. */
  drop(plan: MountPlan): void {
    for (const spare of this.#spares) if (spare.plan === plan) this.#end(spare);
  }

  /** Ends all of them. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const spare of this.#spares) this.#end(spare);
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  async #start(spare: Spare, specOf: SpecOf): Promise<void> {
    if (!this.#spares.has(spare)) return;
    let instructions: Instructions | null = null;
    try {
      instructions = new Instructions(this.#calls);
      const child = await this.#spawn(specOf(instructions.inherited));
      instructions.handOver();
      this.#keep(spare, { child, instructions });
    } catch {
      // Whoever needs one starts it, and is told why that fails.
      this.noteFailure(spare.plan);
      this.#end(spare);
      instructions?.close();
    }
  }

  #keep(spare: Spare, waiting: WaitingSandbox): void {
    if (!this.#spares.has(spare)) {
      this.#track(endWaiting(waiting));
      return;
    }
    spare.waiting = waiting;
    spare.idle = setTimeout(() => this.#end(spare), RESERVE_IDLE_MS).unref();
    this.#calls.keepLoopAlive(waiting.child.pid, false);
    waiting.child.onExit(() => {
      if (!this.#spares.has(spare)) return;
      this.noteFailure(spare.plan);
      this.#end(spare);
    });
  }

  /** One that was given up while it was started is found no more; there may be another one like it by now. */
  #find(plan: MountPlan, kind: string): Spare | undefined {
    for (const spare of this.#spares) if (spare.plan === plan && spare.kind === kind) return spare;
    return undefined;
  }

  #isUnsuited(plan: MountPlan): boolean {
    return (this.#failures.get(plan) ?? 0) >= MAX_RESERVE_FAILURES;
  }

  #dropOutdated(): void {
    if (this.#spares.size > 0 && this.#mounts.changed()) for (const spare of this.#spares) this.#end(spare);
  }

  #end(spare: Spare): void {
    if (!this.#spares.has(spare)) return;
    this.#forget(spare);
    if (spare.waiting !== null) this.#track(endWaiting(spare.waiting));
  }

  #forget(spare: Spare): void {
    this.#spares.delete(spare);
    if (this.#spares.size === 0) this.#mounts.ignore();
    clearTimeout(spare.idle);
    if (spare.waiting !== null) this.#calls.keepLoopAlive(spare.waiting.child.pid, true);
  }

  #track(work: Promise<void>): void {
    const tracked = work.finally(() => this.#underWay.delete(tracked));
    this.#underWay.add(tracked);
  }
}

interface Spare {
  readonly plan: MountPlan;
  readonly kind: string;
  /** Null while it is started. */
  waiting: WaitingSandbox | null;
  idle: NodeJS.Timeout | undefined;
}

/** It is killed before its pipe is at an end: it would go on. */
async function endWaiting({ child, instructions }: WaitingSandbox): Promise<void> {
  await discardChild(child);
  instructions.close();
}
