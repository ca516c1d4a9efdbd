/** Suggests the known name closest to `name`, as `did you mean 'x'?`; null when none is close. */
export function suggestionFor(name: string, known: readonly string[]): string | null {
  const distances = known.map((candidate) => ({ candidate, distance: distanceBetween(name, candidate) }));
  const best = distances.reduce((a, b) => (b.distance < a.distance ? b : a), NONE);
  return best.candidate === '' ? null : `did you mean '${best.candidate}'?`;
}

const NONE = { candidate: '', distance: Number.POSITIVE_INFINITY };

/**
 * A name that is a prefix of the other (`--ping-interval-ms`) has distance 1; otherwise each wrong character counts, and so do two
 * that have changed places. Infinite when the names are not similar.
 */
function distanceBetween(name: string, candidate: string): number {
  const [a, b] = [name.toLowerCase(), candidate.toLowerCase()];
  const shorter = Math.min(a.length, b.length);
  if (shorter >= 6 && a.slice(0, shorter) === b.slice(0, shorter)) return 1;
  if (Math.abs(a.length - b.length) > 2) return Number.POSITIVE_INFINITY;
  const distance = editDistance(a, b);
  // Two wrong characters of four make another word.
  const most = Math.max(a.length, b.length) <= 4 ? 1 : 2;
  return distance <= most && distance < Math.max(a.length, b.length) ? distance : Number.POSITIVE_INFINITY;
}

/** Distance with insertions, deletions, substitutions and swaps of neighbours (optimal string alignment), one row at a time. */
function editDistance(a: string, b: string): number {
  let earlier: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = isSwap ? earlier[j - 2]! + 1 : Number.POSITIVE_INFINITY;
      next.push(Math.min(substitution, swap, row[j]! + 1, next[j - 1]! + 1));
    }
    [earlier, row] = [row, next];
  }
  return row[b.length]!;
}
