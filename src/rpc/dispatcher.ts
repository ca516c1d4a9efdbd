import { MAX_PARKED_REQUESTS, MAX_QUEUED_REQUESTS, MAX_REQUESTS_BEYOND_SLOTS } from './limits.ts';

/**
 * A request that is ready to run. `run` returns a promise unless it is done synchronously. It neither throws nor
 * rejects.
 */
export interface Job {
  readonly lane: 'ordinary' | 'control';
  /** What the request is about. Jobs about one subject start in arrival order. Null means no subject. */
  readonly subject: string | null;
  /** Memory that the job occupies while it waits. */
  readonly bytes: number;
  run(slot: Slot): Promise<void> | undefined;
  /** Called instead of `run` when the job is dropped before it starts. */
  dropped?(): void;
}

/** The slot of a running job. */
export interface Slot {
  /** Gives the slot to another job while this one only waits. Does nothing when too many jobs are parked. */
  park(): void;
}

/**
 * Schedules the requests of one connection. Ordinary requests share a bounded number of slots; control requests
 * need none.
 */
export class Dispatcher {
  readonly #slots: number;
  readonly #maxBytes: number;
  readonly #onReceiving: (open: boolean) => void;
  #running = 0;
  #parked = 0;
  #queue: Job[] = [];
  /** Bytes of queued and running jobs. Parked jobs are counted separately. */
  #bytes = 0;
  #parkedBytes = 0;
  #receiving = true;
  #held = false;
  #active = 0;
  #starting = false;
  #idleWaiters: (() => void)[] = [];

  /**
   * `onReceiving` is called with false when no more requests should be read, for example because `maxBytes` are in
   * progress, and with true when reading may continue.
   */
  constructor(slots: number, maxBytes: number, onReceiving: (open: boolean) => void) {
    this.#slots = slots;
    this.#maxBytes = maxBytes;
    this.#onReceiving = onReceiving;
  }

  /**
   * Whether these bytes exceed the limit together with those of parked jobs. Parked jobs may wait without a limit,
   * so pausing the connection would not help: the caller must refuse the request.
   */
  overloads(bytes: number): boolean {
    return this.#parkedBytes > 0 && this.#parkedBytes + bytes > this.#maxBytes;
  }

  /** Number of jobs that wait for a slot. */
  get queued(): number {
    return this.#queue.length;
  }

  /** Number of jobs that have started and not ended. */
  get active(): number {
    return this.#active;
  }

  /** Runs the job now or queues it. */
  submit(job: Job): void {
    this.#bytes += job.bytes;
    if (job.lane === 'control') {
      this.#startAhead(job.subject);
      this.#start(job, false);
    } else if (this.#hasFreeSlot() && this.#queue.length === 0) {
      this.#start(job, true);
    } else {
      this.#queue.push(job);
    }
    this.#updateReceiving();
  }

  /** Pauses reading requests and starting ordinary jobs while their responses could not be sent. */
  setHeld(held: boolean): void {
    this.#held = held;
    this.#startQueued();
  }

  /** Drops the jobs that have not started. */
  clear(): void {
    for (const job of this.#queue.splice(0)) {
      this.#bytes -= job.bytes;
      job.dropped?.();
    }
    this.#reportIdle();
  }

  /** Resolves when nothing is queued or running. */
  async idle(): Promise<void> {
    if (this.#active === 0 && this.#queue.length === 0) return;
    await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
  }

  #hasFreeSlot(): boolean {
    return this.#running < this.#slots && !this.#held;
  }

  /**
   * Starts the queued jobs about the subject first, so that a control job neither overtakes them nor waits for a
   * slot.
   */
  #startAhead(subject: string | null): void {
    if (subject === null || this.#queue.length === 0) return;
    const ahead = this.#queue.filter((job) => job.subject === subject);
    if (ahead.length === 0) return;
    this.#queue = this.#queue.filter((job) => job.subject !== subject);
    for (const job of ahead) this.#start(job, true);
  }

  /**
   * A job that parks while it is being started calls this again. The outer loop then continues with the next job.
   */
  #startQueued(): void {
    if (this.#starting) return;
    this.#starting = true;
    while (this.#hasFreeSlot()) {
      const job = this.#queue.shift();
      if (job === undefined) break;
      this.#start(job, true);
    }
    this.#starting = false;
    this.#updateReceiving();
  }

  #start(job: Job, takesSlot: boolean): void {
    this.#active++;
    if (takesSlot) this.#running++;
    let held: 'slot' | 'parked' | 'none' = takesSlot ? 'slot' : 'none';
    const park = () => {
      if (held !== 'slot' || this.#parked >= MAX_PARKED_REQUESTS) return;
      held = 'parked';
      this.#parked++;
      this.#running--;
      this.#bytes -= job.bytes;
      this.#parkedBytes += job.bytes;
      this.#startQueued();
    };
    const leave = () => {
      this.#active--;
      if (held === 'slot') this.#running--;
      if (held === 'parked') {
        this.#parked--;
        this.#parkedBytes -= job.bytes;
      } else {
        this.#bytes -= job.bytes;
      }
    };
    const running = job.run({ park });
    if (running === undefined) {
      // The job was synchronous and blocked no other, so none has to be started in its place.
      leave();
      this.#reportIdle();
      return;
    }
    void running.then(() => {
      leave();
      this.#startQueued();
      this.#reportIdle();
    });
  }

  #updateReceiving(): void {
    const open =
      !this.#held &&
      this.#active < this.#slots + MAX_REQUESTS_BEYOND_SLOTS &&
      this.#queue.length < MAX_QUEUED_REQUESTS &&
      this.#bytes < this.#maxBytes;
    if (open === this.#receiving) return;
    this.#receiving = open;
    this.#onReceiving(open);
  }

  #reportIdle(): void {
    if (this.#active > 0 || this.#queue.length > 0) return;
    for (const resolve of this.#idleWaiters.splice(0)) resolve();
  }
}
