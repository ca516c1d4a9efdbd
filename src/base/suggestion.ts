/** Suggests the known name closest to `name`, as `did you mean 'x'?`; null when none is close. */
export function suggestionFor(name: string, known: readonly string[]): string | null {
  const distances = known.map((candidate) => ({ candidate, distance: distanceBetween(name, candidate) }));
  const best = distances.reduce((a, b) => (b.distance < a.distance ? b : a), { candidate: '', distance: 3 });
  return best.candidate === '' ? null : `did you mean '${best.candidate}'?`;
}

/** A name that is a prefix of the other (`--ping-interval-ms`) has distance 1; otherwise each wrong character counts. */
function distanceBetween(name: string, candidate: string): number {
  const [a, b] = [name.toLowerCase(), candidate.toLowerCase()];
  const shorter = Math.min(a.length, b.length);
  if (shorter >= 6 && a.slice(0, shorter) === b.slice(0, shorter)) return 1;
  if (Math.abs(a.length - b.length) > 2) return Number.POSITIVE_INFINITY;
  const distance = editDistance(a, b);
  // Short names without a common character are not similar.
  return distance < Math.max(a.length, b.length) ? distance : Number.POSITIVE_INFINITY;
}

/** Levenshtein distance, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(substitution, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
