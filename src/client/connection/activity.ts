import { MAX_TIMER_MS } from '../limits.ts';

/**
 * What a program waits for on one client: calls, events, the end of a process. While there is any of it, a timer keeps Node running. The
 * connection itself does not, so a program ends although it forgot to close its client.
 */
export class Activity {
  #count = 0;
  #timer: ReturnType<typeof setInterval> | undefined;
  #over = false;

  /** Begins a wait. Returns a function that ends it, once. */
  begin(): () => void {
    if (this.#over) return () => {};
    if (this.#count++ === 0) this.#timer = setInterval(() => {}, MAX_TIMER_MS);
    let waits = true;
    return () => {
      if (!waits) return;
      waits = false;
      if (--this.#count === 0) clearInterval(this.#timer);
    };
  }

  /** The client has ended, so nothing can arrive any more. Listeners that were not removed no longer count. */
  end(): void {
    this.#over = true;
    clearInterval(this.#timer);
  }

  /** Waits for the work. */
  async during<T>(work: Promise<T>): Promise<T> {
    const end = this.begin();
    try {
      return await work;
    } finally {
      end();
    }
  }
}

/** Waits that end together, such as those for one process. */
export class ActivityGroup {
  readonly #activity: Activity;
  readonly #ends = new Set<() => void>();
  #over = false;

  constructor(activity: Activity) {
    this.#activity = activity;
  }

  /** Begins a wait. Returns a function that ends it. */
  begin(): () => void {
    if (this.#over) return () => {};
    const end = this.#activity.begin();
    this.#ends.add(end);
    return () => {
      this.#ends.delete(end);
      end();
    };
  }

  /** Ends all waits, and those to come. */
  end(): void {
    this.#over = true;
    for (const end of this.#ends) end();
    this.#ends.clear();
  }
}
