import { availableParallelism } from 'node:os';
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

/** Turns the event loop without letting it sleep. All clients share it, as they share the loop. */
class Vigil {
  #endsAtMs = 0;
  #turnsLeft = 0;
  #isKept = false;

  begin(nowMs: number): void {
    // Whoever is to ask next, or runs meanwhile, needs a processor too.
    if (PROCESSORS === 1) return;
    this.#endsAtMs = nowMs + AWAKE_MS;
    this.#turnsLeft = AWAKE_TURNS;
    if (this.#isKept) return;
    this.#isKept = true;
    setImmediate(this.#turn);
  }

  end(): void {
    this.#turnsLeft = 0;
  }

  readonly #turn = (): void => {
    this.#isKept = this.#turnsLeft-- > 0 && performance.now() < this.#endsAtMs;
    if (this.#isKept) setImmediate(this.#turn);
  };
}

const PROCESSORS = availableParallelism();
const VIGIL = new Vigil();
