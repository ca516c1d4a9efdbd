/**
 * A value made when it is first asked for. Schemas are made this way: building all of them takes longer than everything else a
 * server does before its first answer, which needs one.
 */
export function once<T>(make: () => T): () => T {
  let value: { readonly made: T } | null = null;
  return () => {
    value ??= { made: make() };
    return value.made;
  };
}
