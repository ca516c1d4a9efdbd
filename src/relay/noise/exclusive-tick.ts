/**
 * Resolves in a turn of the event loop that no other caller gets. A step of ML-KEM takes about a millisecond: with one such step per
 * turn any number of handshakes leaves the loop free for everything else in between. A thread would spare the loop these steps, but
 * starting it takes longer than ten handshakes, and secrets would be copied into its memory.
 */
export function exclusiveTick(): Promise<void> {
  const turn = last.then(() => new Promise<void>((resolve) => setImmediate(resolve)));
  last = turn;
  return turn;
}

let last: Promise<void> = Promise.resolve();
