import { uptimeMs } from '../base/uptime.ts';
import { FAIR_TURNS } from './fair-turns.ts';
import { LIGHT_USE_MS, TURN_CREDIT } from './limits.ts';

/**
 * What a connection may use of the event loop in its turn. Connections that share a credit, like those of one tenant of
 * a relay, also share their turns: many get as much as a single one.
 */
export class TurnCredit {
  readonly #now: () => number;
  #perTurn: number;
  #left: number;
  #turnStartedAtMs: number;

  constructor(perTurn = TURN_CREDIT, now: () => number = uptimeMs) {
    this.#now = now;
    this.#perTurn = perTurn;
    this.#left = perTurn;
    this.#turnStartedAtMs = now();
  }

  get isSpent(): boolean {
    return this.#left <= 0;
  }

  spend(cost: number): void {
    this.#left -= cost;
  }

  /** Changes the credit of this turn and of all later ones. */
  setPerTurn(perTurn: number): void {
    this.#left += perTurn - this.#perTurn;
    this.#perTurn = perTurn;
  }

  startTurn(): void {
    this.#turnStartedAtMs = this.#now();
    this.#left = this.#perTurn;
  }

  /** Starts the next turn now if the credit of this one lasted long. Returns false when its holder has to wait. */
  renewAfterLightUse(): boolean {
    if (this.#now() - this.#turnStartedAtMs < LIGHT_USE_MS) return false;
    this.startTurn();
    return true;
  }
}

/** The turns of one connection: it works while it has credit, and then waits until all other busy connections had a turn. */
export class ConnectionTurns {
  readonly credit: TurnCredit;
  readonly #turn: () => void;
  #isWaiting = false;

  /** Calls `resume` when a turn begins. */
  constructor(credit: TurnCredit, resume: () => void) {
    this.credit = credit;
    this.#turn = () => {
      this.#isWaiting = false;
      credit.startTurn();
      resume();
    };
  }

  /** Whether the connection must not work before its next turn. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Ends the turn when its credit is spent. */
  endIfSpent(): void {
    if (!this.credit.isSpent || this.credit.renewAfterLightUse()) return;
    this.#isWaiting = true;
    FAIR_TURNS.add(this.#turn, this.credit);
  }

  /** Drops the turn that the connection waits for. */
  stop(): void {
    FAIR_TURNS.remove(this.#turn, this.credit);
  }
}
