import { availableParallelism } from 'node:os';
import type { CpuAffinity } from '../native/cpu-affinity.ts';
import {
  BUSY_POLL_CREDIT,
  BUSY_POLL_MAX_PAUSE_MS,
  BUSY_POLL_MAX_TURNS,
  BUSY_POLL_MS,
  PIPELINED_PAUSE_MS,
} from './limits.ts';

type Yielding = Pick<CpuAffinity, 'yield'>;

/**
 * Measures how soon one client sends its next request after a response. The event loop busy-polls for a short time after a response
 * to a client that sends the next request immediately. Going to sleep and waking up takes longer than most requests, above all in
 * a virtual machine, and the code that runs afterwards is slow until the CPU caches are warm. Clients that are slower, or that
 * pipeline their requests, do not cause busy polling.
 */
export class BusyPollClient {
  readonly #poll: BusyPoll;
  #respondedAtMs = Number.NEGATIVE_INFINITY;
  /** For how many more requests the client counts as fast, even if they come late: any client is delayed now and then. */
  #credit = 0;

  constructor(poll = SHARED_BUSY_POLL) {
    this.#poll = poll;
  }

  requestReceived(): void {
    this.#poll.stop();
    const pauseMs = performance.now() - this.#respondedAtMs;
    if (pauseMs < PIPELINED_PAUSE_MS) this.#credit = 0;
    else if (pauseMs < BUSY_POLL_MAX_PAUSE_MS) this.#credit = BUSY_POLL_CREDIT;
    else if (this.#credit > 0) this.#credit--;
  }

  responseSent(): void {
    this.#respondedAtMs = performance.now();
    if (this.#credit > 0) this.#poll.start(this.#respondedAtMs);
  }
}

/**
 * Keeps the event loop turning without sleeping. In each turn it yields the CPU first to other threads that wait for it: programs, and
 * the client itself, which the scheduler places on this CPU because a process that has just written usually goes to sleep.
 */
export class BusyPoll {
  readonly #cpuCount: () => number;
  #load: (() => Yielding) | null = null;
  #calls: Yielding | null = null;
  #endsAtMs = 0;
  #turnsLeft = 0;
  #running = false;

  constructor(cpuCount = availableParallelism) {
    this.#cpuCount = cpuCount;
  }

  /** Allows busy polling. `load` is called for the first client that is fast; if it throws, there is no busy polling. */
  enable(load: () => Yielding): void {
    this.#load = load;
    this.#calls = null;
  }

  start(nowMs: number): void {
    if (this.#load !== null) this.#loadCalls(this.#load);
    if (this.#calls === null) return;
    this.#endsAtMs = nowMs + BUSY_POLL_MS;
    this.#turnsLeft = BUSY_POLL_MAX_TURNS;
    if (this.#running) return;
    this.#running = true;
    setImmediate(this.#turn);
  }

  stop(): void {
    this.#turnsLeft = 0;
  }

  #loadCalls(load: () => Yielding): void {
    this.#load = null;
    // On a single CPU the client needs it to send its next request.
    if (this.#cpuCount() === 1) return;
    try {
      this.#calls = load();
    } catch {
      // The event loop sleeps between requests, as Node does by default.
    }
  }

  readonly #turn = (): void => {
    this.#running = this.#turnsLeft-- > 0 && performance.now() < this.#endsAtMs;
    if (!this.#running) return;
    this.#calls?.yield();
    setImmediate(this.#turn);
  };
}

/** All clients of the process share it, as they share the event loop. */
export const SHARED_BUSY_POLL = new BusyPoll();
