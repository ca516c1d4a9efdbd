import { useEffect, useState } from 'preact/hooks';

/** A value that components can subscribe to. */
export class Store<T> {
  #value: T;
  readonly #listeners = new Set<(value: T) => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const listener of [...this.#listeners]) listener(value);
  }

  /** Returns a function that removes the listener. */
  subscribe(listener: (value: T) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** The value of a store. The component renders again when it changes. */
export function useStore<T>(store: Store<T>): T {
  const [, render] = useState(0);
  const rendered = store.value;
  useEffect(() => {
    const stop = store.subscribe(() => render((count) => count + 1));
    // A change between the first render and this effect.
    if (!Object.is(rendered, store.value)) render((count) => count + 1);
    return stop;
  }, [store]);
  return rendered;
}
