/** Where time comes from. */
export interface Clock {
  /** Milliseconds since some moment, never going back. */
  now(): number;
  /** Milliseconds since 1970. */
  epochMs(): number;
  /** Calls back once, after a time. Returns what prevents it. */
  after(ms: number, callback: () => void): () => void;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  epochMs: () => Date.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};
