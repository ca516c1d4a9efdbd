import { uptimeMs } from '../base/uptime.ts';
import { TURNS_SLICE_MS } from './limits.ts';

/**
 * Runs the work of busy connections in turns. Groups take turns, and so do the members of a group. The turns run in
 * short slices, and the event loop serves all other connections between two slices.
 */
export class FairTurns {
  /** Waiting turns by group. The first group is next, and the first turn of a group. */
  readonly #groups = new Map<unknown, Set<() => void>>();
  readonly #now: () => number;
  #isScheduled = false;

  constructor(now: () => number = uptimeMs) {
    this.#now = now;
  }

  /** Runs `turn` once, after the turns that wait already. `group` is the client that the turn counts for. */
  add(turn: () => void, group: unknown = turn): void {
    const turns = this.#groups.get(group);
    if (turns === undefined) this.#groups.set(group, new Set([turn]));
    else turns.add(turn);
    this.#schedule();
  }

  /** Drops a turn that waits. */
  remove(turn: () => void, group: unknown = turn): void {
    const turns = this.#groups.get(group);
    if (turns?.delete(turn) && turns.size === 0) this.#groups.delete(group);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#runSlice());
  }

  #runSlice(): void {
    this.#isScheduled = false;
    const end = this.#now() + TURNS_SLICE_MS;
    // Turns that a turn adds wait for the next slice, so that the event loop goes round in between.
    let left = this.#groups.size;
    try {
      while (left-- > 0 && this.#groups.size > 0) {
        this.#runNext();
        if (this.#now() >= end) break;
      }
    } finally {
      if (this.#groups.size > 0) this.#schedule();
    }
  }

  #runNext(): void {
    const [[group, turns]] = this.#groups as unknown as [[unknown, Set<() => void>]];
    const [turn] = turns as unknown as [() => void];
    turns.delete(turn);
    this.#groups.delete(group);
    if (turns.size > 0) this.#groups.set(group, turns);
    turn();
  }
}

/** The turns of this process. All connections share its event loop. */
export const FAIR_TURNS = new FairTurns();
