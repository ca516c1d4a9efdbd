import { availableParallelism } from 'node:os';
import { uptimeMs } from '../base/uptime.ts';
import {
  BUSY_POLL_CREDIT,
  BUSY_POLL_MAX_PAUSE_MS,
  BUSY_POLL_MAX_TURNS,
  BUSY_POLL_MS,
  PIPELINED_PAUSE_MS,
} from './limits.ts';

/**
 * Measures how soon one client sends its next request after a response. The event loop busy-polls for a short time after a response
 * to a client that sends the next request immediately. Going to sleep and waking up takes longer than most requests, above all in
 * a virtual machine, and the code that runs afterwards is slow until the CPU caches are warm. Clients that are slower, or that
 * pipeline their requests, do not cause busy polling. Without a poll nothing is measured.
 */
export class BusyPollClient {
  readonly #poll: BusyPoll | null;
  #respondedAtMs = Number.NEGATIVE_INFINITY;
  /** For how many more requests the client counts as fast, even if they come late: any client is delayed now and then. */
  #credit = 0;

  constructor(poll: BusyPoll | null) {
    this.#poll = poll;
  }

  requestReceived(): void {
    if (this.#poll === null) return;
    this.#poll.stop();
    const pauseMs = uptimeMs() - this.#respondedAtMs;
    if (pauseMs < PIPELINED_PAUSE_MS) this.#credit = 0;
    else if (pauseMs < BUSY_POLL_MAX_PAUSE_MS) this.#credit = BUSY_POLL_CREDIT;
    else if (this.#credit > 0) this.#credit--;
  }

  responseSent(): void {
    if (this.#poll === null) return;
    this.#respondedAtMs = uptimeMs();
    if (this.#credit > 0) this.#poll.start(this.#respondedAtMs);
  }
}

/**
 * Keeps the event loop turning without sleeping. In each turn it yields the CPU first to other threads that wait for it: programs, and
 * the client itself, which the scheduler places on this CPU because a process that has just written usually goes to sleep.
 */
export class BusyPoll {
  #yieldCpu: (() => void) | null = null;
  #endsAtMs = 0;
  #turnsLeft = 0;
  #running = false;

  /** Allows polling. Before this call the event loop sleeps between requests, as Node does by default. */
  enable(yieldCpu: () => void, cpuCount = availableParallelism()): void {
    // On a single CPU the client needs it to send its next request.
    if (cpuCount > 1) this.#yieldCpu = yieldCpu;
  }

  start(nowMs: number): void {
    if (this.#yieldCpu === null) return;
    this.#endsAtMs = nowMs + BUSY_POLL_MS;
    this.#turnsLeft = BUSY_POLL_MAX_TURNS;
    if (this.#running) return;
    this.#running = true;
    setImmediate(this.#turn);
  }

  stop(): void {
    this.#turnsLeft = 0;
  }

  readonly #turn = (): void => {
    this.#running = this.#turnsLeft-- > 0 && uptimeMs() < this.#endsAtMs;
    if (!this.#running) return;
    this.#yieldCpu?.();
    setImmediate(this.#turn);
  };
}
