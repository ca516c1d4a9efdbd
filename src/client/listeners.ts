/** Functions that want to know. One that throws does not keep the others from being told; its error surfaces on its own. */
export class Listeners<Values extends readonly unknown[]> {
  readonly #listeners = new Set<(...values: Values) => void>();

  /** Returns what takes the listener out. */
  add(listener: (...values: Values) => void): () => void {
    // A function of its own, so that one listener can be added twice.
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
