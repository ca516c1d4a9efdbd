import { availableParallelism } from 'node:os';
import type { CpuAffinity } from '../native/cpu-affinity.ts';
import { AWAKE_MS, AWAKE_TURNS, BRISK_CREDIT, BRISK_MS, IN_ADVANCE_MS } from './limits.ts';

/**
 * How soon one client asks again when it has been answered. For one that does so at once the event loop stays awake a moment: falling
 * asleep and waking up takes longer than most requests, in a virtual machine above all, and what runs after it is slow until the
 * processor is warm again. A client that takes its time costs nothing, nor does one that sends its requests in advance.
 */
export class ClientPace {
  #answeredAtMs = Number.NEGATIVE_INFINITY;
  /** For how many more requests it counts as brisk, whatever they do: now and then everybody is held up. */
  #credit = 0;

  /** A request has arrived. */
  asked(): void {
    VIGIL.end();
    const pauseMs = performance.now() - this.#answeredAtMs;
    if (pauseMs < IN_ADVANCE_MS) this.#credit = 0;
    else if (pauseMs < BRISK_MS) this.#credit = BRISK_CREDIT;
    else if (this.#credit > 0) this.#credit--;
  }

  /** A request was answered. */
  answered(): void {
    this.#answeredAtMs = performance.now();
    if (this.#credit > 0) VIGIL.begin(this.#answeredAtMs);
  }
}

/** From now on clients are waited for awake; `load` gives the call for that when the first one is, if it can. */
export function stayAwakeWith(load: () => Yielding): void {
  VIGIL.use(load);
}

type Yielding = Pick<CpuAffinity, 'yield'>;

/**
 * Turns the event loop without letting it sleep. In each turn others that wait for the processor run first: programs, and the client
 * itself, which the system puts there because whoever has answered usually falls asleep. All clients share it, as they share the loop.
 */
class Vigil {
  #load: (() => Yielding) | null = null;
  #calls: Yielding | null = null;
  #endsAtMs = 0;
  #turnsLeft = 0;
  #isKept = false;

  use(load: () => Yielding): void {
    this.#load = load;
    this.#calls = null;
  }

  begin(nowMs: number): void {
    if (this.#load !== null) this.#loadCalls(this.#load);
    if (this.#calls === null) return;
    this.#endsAtMs = nowMs + AWAKE_MS;
    this.#turnsLeft = AWAKE_TURNS;
    if (this.#isKept) return;
    this.#isKept = true;
    setImmediate(this.#turn);
  }

  end(): void {
    this.#turnsLeft = 0;
  }

  #loadCalls(load: () => Yielding): void {
    this.#load = null;
    // With one processor whoever is to ask next needs it.
    if (availableParallelism() === 1) return;
    try {
      this.#calls = load();
    } catch {
      // Then it sleeps, as ever.
    }
  }

  readonly #turn = (): void => {
    this.#isKept = this.#turnsLeft-- > 0 && performance.now() < this.#endsAtMs;
    if (!this.#isKept) return;
    this.#calls?.yield();
    setImmediate(this.#turn);
  };
}

const VIGIL = new Vigil();
