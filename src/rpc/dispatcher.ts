import { MAX_PARKED_REQUESTS, MAX_QUEUED_REQUESTS, MAX_REQUESTS_BEYOND_SLOTS } from './limits.ts';

/** A request that is ready to run. `run` returns a promise when it is not done at once, and neither throws nor rejects. */
export interface Job {
  readonly lane: 'ordinary' | 'control';
  /** What the request is about; jobs about one subject start in arrival order. Null is about nothing in particular. */
  readonly subject: string | null;
  /** What it costs to keep while it waits. */
  readonly bytes: number;
  run(slot: Slot): Promise<void> | undefined;
  /** Told in place of `run` when it is dropped before its turn. */
  dropped?(): void;
}

/** The place a running job occupies. */
export interface Slot {
  /** Gives the place to another job while this one only waits. It is a no-op when too many wait already. */
  park(): void;
}

/** Decides when the requests of one connection start. Ordinary ones share a bounded number of slots; control ones need none. */
export class Dispatcher {
  readonly #slots: number;
  readonly #maxBytes: number;
  readonly #onReceiving: (open: boolean) => void;
  #running = 0;
  #parked = 0;
  #queue: Job[] = [];
  /** Of jobs that are queued or run; those of parked ones are counted apart. */
  #bytes = 0;
  #parkedBytes = 0;
  #receiving = true;
  #held = false;
  #active = 0;
  #starting = false;
  #idleWaiters: (() => void)[] = [];

  /**
   * `onReceiving` tells when no further requests should be read (false) and when they are welcome again (true). That is so when
   * `maxBytes` of them are under way, for one.
   */
  constructor(slots: number, maxBytes: number, onReceiving: (open: boolean) => void) {
    this.#slots = slots;
    this.#maxBytes = maxBytes;
    this.#onReceiving = onReceiving;
  }

  /**
   * Whether so many bytes are too many beside those of parked jobs. They may wait for ever, so that the intake cannot wait for them:
   * whoever submits has to refuse.
   */
  overloads(bytes: number): boolean {
    return this.#parkedBytes > 0 && this.#parkedBytes + bytes > this.#maxBytes;
  }

  /** How many jobs wait for their turn. */
  get queued(): number {
    return this.#queue.length;
  }

  /** How many jobs have started and not ended. */
  get active(): number {
    return this.#active;
  }

  /** Runs the job now or queues it. */
  submit(job: Job): void {
    this.#bytes += job.bytes;
    if (job.lane === 'control') {
      this.#startAhead(job.subject);
      this.#start(job, false);
    } else if (this.#hasRoom() && this.#queue.length === 0) {
      this.#start(job, true);
    } else {
      this.#queue.push(job);
    }
    this.#updateReceiving();
  }

  /** Stops reading requests and starting ordinary jobs, for as long as their answers could not be sent. */
  setHeld(held: boolean): void {
    this.#held = held;
    this.#startQueued();
  }

  /** Drops what has not started. */
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

  #hasRoom(): boolean {
    return this.#running < this.#slots && !this.#held;
  }

  /** Queued jobs about the subject go first, so that a control job neither overtakes them nor waits for a slot. */
  #startAhead(subject: string | null): void {
    if (subject === null || this.#queue.length === 0) return;
    const ahead = this.#queue.filter((job) => job.subject === subject);
    if (ahead.length === 0) return;
    this.#queue = this.#queue.filter((job) => job.subject !== subject);
    for (const job of ahead) this.#start(job, true);
  }

  /** A job that parks at once comes here while it is being started; the loop that started it goes on with the next. */
  #startQueued(): void {
    if (this.#starting) return;
    this.#starting = true;
    while (this.#hasRoom()) {
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
    let place: 'slot' | 'parked' | 'none' = takesSlot ? 'slot' : 'none';
    const park = () => {
      if (place !== 'slot' || this.#parked >= MAX_PARKED_REQUESTS) return;
      place = 'parked';
      this.#parked++;
      this.#running--;
      this.#bytes -= job.bytes;
      this.#parkedBytes += job.bytes;
      this.#startQueued();
    };
    const leave = () => {
      this.#active--;
      if (place === 'slot') this.#running--;
      if (place === 'parked') {
        this.#parked--;
        this.#parkedBytes -= job.bytes;
      } else {
        this.#bytes -= job.bytes;
      }
    };
    const running = job.run({ park });
    if (running === undefined) {
      // It kept nobody waiting, so nobody need be started in its place.
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
