/** Returns a function that calls `make` when it is first called, and returns that result each time. */
export function once<T>(make: () => T): () => T {
  let value: { readonly made: T } | null = null;
  return () => {
    value ??= { made: make() };
    return value.made;
  };
}
