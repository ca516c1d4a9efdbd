import type { Child, EnclosingCalls, SpawnSpec } from '../../process/spawn/spawner.ts';
import { discard } from '../../process/start-program.ts';
import { Instructions } from './instructions.ts';
import { SPARE_BWRAPS, SPARE_IDLE_MS } from './limits.ts';

/** A bwrap that has been started and told nothing yet. */
export interface WaitingBwrap {
  readonly child: Child;
  readonly instructions: Instructions;
}

/** How a bwrap is started that finds its instructions in these descriptors. */
type SpecOf = (inherited: Instructions['inherited']) => SpawnSpec;

/**
 * Has a bwrap started for the next program while the last one is on its way into its sandbox: this process only waits then, and the
 * next start does not. One that is not used for a while is ended, and none keeps this process alive. Each knows how it was started and
 * nothing of what it will confine: it reads that from a pipe, as every bwrap does, and should this process die it finds no program to
 * execute.
 */
export class SpareBwraps {
  readonly #spawn: (spec: SpawnSpec) => Promise<Child>;
  readonly #calls: EnclosingCalls;
  /** By kind, the longest unused first. */
  readonly #spares = new Map<string, Spare>();
  /** What is being started or ended. */
  readonly #underWay = new Set<Promise<void>>();
  #closed = false;

  constructor(spawn: (spec: SpawnSpec) => Promise<Child>, calls: EnclosingCalls) {
    this.#spawn = spawn;
    this.#calls = calls;
  }

  /** Null when there is none of the kind. Whoever gets one has to see to its end. */
  take(kind: string): WaitingBwrap | null {
    const spare = this.#spares.get(kind);
    if (spare === undefined || spare.waiting === null) return null;
    this.#spares.delete(kind);
    clearTimeout(spare.idle);
    this.#calls.keepLoopAlive(spare.waiting.child.pid, true);
    return spare.waiting;
  }

  /** Sees to it that there is one of the kind soon. */
  provide(kind: string, specOf: SpecOf): void {
    if (this.#closed || this.#spares.has(kind)) return;
    const spare: Spare = { kind, waiting: null, idle: undefined };
    this.#spares.set(kind, spare);
    const [oldest] = this.#spares.values();
    if (this.#spares.size > SPARE_BWRAPS && oldest !== undefined) this.#drop(oldest);
    setImmediate(() => this.#track(this.#start(spare, specOf)));
  }

  /** Ends all of them. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const spare of this.#spares.values()) this.#drop(spare);
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  async #start(spare: Spare, specOf: SpecOf): Promise<void> {
    if (!this.#isWanted(spare)) return;
    let instructions: Instructions | null = null;
    try {
      instructions = new Instructions(this.#calls);
      const child = await this.#spawn(specOf(instructions.inherited));
      instructions.handOver();
      this.#keep(spare, { child, instructions });
    } catch {
      // Whoever needs one starts it, and is told why that fails.
      this.#drop(spare);
      instructions?.close();
    }
  }

  #keep(spare: Spare, waiting: WaitingBwrap): void {
    if (!this.#isWanted(spare)) {
      this.#track(endWaiting(waiting));
      return;
    }
    spare.waiting = waiting;
    spare.idle = setTimeout(() => this.#drop(spare), SPARE_IDLE_MS).unref();
    this.#calls.keepLoopAlive(waiting.child.pid, false);
    waiting.child.onExit(() => this.#drop(spare));
  }

  /** Not when it has been given up while it was started; there may be another one of its kind by now. */
  #isWanted(spare: Spare): boolean {
    return this.#spares.get(spare.kind) === spare;
  }

  #drop(spare: Spare): void {
    if (!this.#isWanted(spare)) return;
    const waiting = this.take(spare.kind);
    if (waiting === null) this.#spares.delete(spare.kind);
    else this.#track(endWaiting(waiting));
  }

  #track(work: Promise<void>): void {
    const tracked = work.finally(() => this.#underWay.delete(tracked));
    this.#underWay.add(tracked);
  }
}

interface Spare {
  readonly kind: string;
  /** Null while it is started. */
  waiting: WaitingBwrap | null;
  idle: NodeJS.Timeout | undefined;
}

/** It is killed before its instructions are at an end: it would try to follow them. */
async function endWaiting({ child, instructions }: WaitingBwrap): Promise<void> {
  await discard(child);
  instructions.close();
}
