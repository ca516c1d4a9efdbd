/** First and last character, both included, as UTF-16 code units. */
export type CharRange = readonly [from: number, to: number];

/** A zero-width assertion. */
export type Assertion = 'start' | 'end' | 'wordBoundary' | 'noWordBoundary';

/** The syntax tree of a pattern. */
export type PatternNode =
  | { readonly kind: 'set'; readonly ranges: readonly CharRange[] }
  | { readonly kind: 'assertion'; readonly assertion: Assertion }
  | { readonly kind: 'sequence'; readonly parts: readonly PatternNode[] }
  | { readonly kind: 'choice'; readonly options: readonly PatternNode[] }
  | { readonly kind: 'repeat'; readonly part: PatternNode; readonly min: number; readonly max: number };

const LAST_UNIT = 0xffff;

export const DIGITS: readonly CharRange[] = [range('0', '9')];
export const WORD: readonly CharRange[] = [
  range('0', '9'),
  range('A', 'Z'),
  range('_', '_'),
  range('a', 'z'),
];
export const SPACE: readonly CharRange[] = [
  [0x09, 0x0d],
  [0x20, 0x20],
];
export const LINE_END: readonly CharRange[] = [[0x0a, 0x0a]];

export function contains(ranges: readonly CharRange[], unit: number): boolean {
  return ranges.some(([from, to]) => unit >= from && unit <= to);
}

/** All characters outside the ranges. */
export function complement(ranges: readonly CharRange[]): CharRange[] {
  const rest: CharRange[] = [];
  let next = 0;
  for (const [from, to] of [...ranges].sort((a, b) => a[0] - b[0])) {
    if (from > next) rest.push([next, from - 1]);
    next = Math.max(next, to + 1);
  }
  if (next <= LAST_UNIT) rest.push([next, LAST_UNIT]);
  return rest;
}

/** The intersection of two sets. */
export function common(a: readonly CharRange[], b: readonly CharRange[]): CharRange[] {
  return a.flatMap(([from, to]) =>
    b
      .map(([low, high]): CharRange => [Math.max(from, low), Math.min(to, high)])
      .filter(([low, high]) => low <= high),
  );
}

/** Adds the other case of each letter. */
export function inEitherCase(ranges: readonly CharRange[]): CharRange[] {
  const lower = common(ranges, [range('a', 'z')]).map(([from, to]): CharRange => [from - 32, to - 32]);
  const upper = common(ranges, [range('A', 'Z')]).map(([from, to]): CharRange => [from + 32, to + 32]);
  return [...ranges, ...lower, ...upper];
}

export function range(from: string, to: string): CharRange {
  return [from.charCodeAt(0), to.charCodeAt(0)];
}
