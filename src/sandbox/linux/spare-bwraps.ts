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
 * next start does not. One that is not used for a while is ended. Each knows how it was started and nothing of what it will confine:
 * it reads that from a pipe, as every bwrap does, and should this process die it finds no program to execute.
 */
export class SpareBwraps {
  readonly #spawn: (spec: SpawnSpec) => Promise<Child>;
  readonly #calls: EnclosingCalls;
  /** By kind, the longest unused first; null while one is started. */
  readonly #spares = new Map<string, Spare | null>();
  /** What is being started or ended. */
  readonly #underWay = new Set<Promise<void>>();
  #closed = false;

  constructor(spawn: (spec: SpawnSpec) => Promise<Child>, calls: EnclosingCalls) {
    this.#spawn = spawn;
    this.#calls = calls;
  }

  /** Null when there is none of the kind. Whoever gets one has to see to its end. */
  take(kind: string): WaitingBwrap | null {
    const spare = this.#spares.get(kind) ?? null;
    if (spare === null) return null;
    this.#spares.delete(kind);
    clearTimeout(spare.idle);
    return spare;
  }

  /** Sees to it that there is one of the kind soon. */
  provide(kind: string, specOf: SpecOf): void {
    if (this.#closed || this.#spares.has(kind)) return;
    this.#spares.set(kind, null);
    setImmediate(() => this.#track(this.#start(kind, specOf)));
  }

  /** Ends all of them. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const kind of this.#spares.keys()) this.#drop(kind);
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  async #start(kind: string, specOf: SpecOf): Promise<void> {
    if (this.#closed) return;
    let instructions: Instructions | null = null;
    try {
      instructions = new Instructions(this.#calls);
      const child = await this.#spawn(specOf(instructions.inherited));
      instructions.handOver();
      this.#keep(kind, { child, instructions });
    } catch {
      // Whoever needs one starts it, and is told why that fails.
      this.#spares.delete(kind);
      instructions?.close();
    }
  }

  #keep(kind: string, waiting: WaitingBwrap): void {
    const drop = () => {
      if (this.#spares.get(kind) === spare) this.#drop(kind);
    };
    const spare = { ...waiting, idle: setTimeout(drop, SPARE_IDLE_MS).unref() };
    this.#spares.set(kind, spare);
    spare.child.onExit(drop);
    if (this.#closed) drop();
    const [oldest] = this.#spares.keys();
    if (this.#spares.size > SPARE_BWRAPS && oldest !== undefined) this.#drop(oldest);
  }

  #drop(kind: string): void {
    const spare = this.take(kind);
    if (spare === null) this.#spares.delete(kind);
    else this.#track(endWaiting(spare));
  }

  #track(work: Promise<void>): void {
    const tracked = work.finally(() => this.#underWay.delete(tracked));
    this.#underWay.add(tracked);
  }
}

interface Spare extends WaitingBwrap {
  readonly idle: NodeJS.Timeout;
}

/** It is killed before its instructions are at an end: it would try to follow them. */
export async function endWaiting({ child, instructions }: WaitingBwrap): Promise<void> {
  await discard(child);
  instructions.close();
}
