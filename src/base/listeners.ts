/**
 * Calls a listener of the program. An exception, also of an async listener, does not reach the caller: it becomes a warning that names
 * the listener. `owner` is how the program knows it, such as `client.onStateChange`.
 */
export function notify<Values extends readonly unknown[]>(
  owner: string,
  listener: (...values: Values) => unknown,
  ...values: Values
): void {
  try {
    const result = listener(...values);
    if (isThenable(result)) result.then(undefined, (error: unknown) => reportListenerError(owner, error));
  } catch (error) {
    reportListenerError(owner, error);
  }
}

/** A set of listeners. A listener that throws does not stop the others, see {@link notify}. */
export class Listeners<Values extends readonly unknown[]> {
  readonly #owner: string;
  readonly #listeners = new Set<(...values: Values) => unknown>();

  /** `owner` is how the program knows the listeners, such as `client.onStateChange`. */
  constructor(owner: string) {
    this.#owner = owner;
  }

  /** Returns a function that removes the listener. */
  add(listener: (...values: Values) => unknown): () => void {
    // A new function per call, so that the same listener can be added twice.
    const entry = (...values: Values) => listener(...values);
    this.#listeners.add(entry);
    return () => this.#listeners.delete(entry);
  }

  emit(...values: Values): void {
    for (const listener of [...this.#listeners]) notify(this.#owner, listener, ...values);
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

/** Reports an exception of a listener. Node prints a warning and emits it as `warning` of `process`; a browser prints it. */
export function reportListenerError(owner: string, error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const message = `a listener of ${owner} threw: ${text}`;
  const { process } = globalThis as { process?: { emitWarning?(message: string, type: string): void } };
  if (process?.emitWarning !== undefined) process.emitWarning(message, 'ExecServerListenerWarning');
  else console.error(message);
}
