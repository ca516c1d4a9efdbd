/** A set of listeners. A listener that throws does not stop the others; its error is rethrown in a microtask. */
export class Listeners<Values extends readonly unknown[]> {
  readonly #listeners = new Set<(...values: Values) => void>();

  /** Returns a function that removes the listener. */
  add(listener: (...values: Values) => void): () => void {
    // A new function per call, so that the same listener can be added twice.
    const entry = (...values: Values) => listener(...values);
    this.#listeners.add(entry);
    return () => this.#listeners.delete(entry);
  }

  emit(...values: Values): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(...values);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
