/** The version to use: `local` if it exists, which is one under development, otherwise the newest. Null without versions. */
export function newestVersion(versions: readonly string[]): string | null {
  if (versions.includes('local')) return 'local';
  return [...versions].sort(compareVersions).at(-1) ?? null;
}

/** Compares semantic versions by precedence, and any others as text. */
function compareVersions(one: string, other: string): number {
  const [left, right] = [parsed(one), parsed(other)];
  if (left === null || right === null) return one < other ? -1 : 1;
  for (const [index, number] of left.numbers.entries()) {
    if (number !== right.numbers[index]) return number < right.numbers[index]! ? -1 : 1;
  }
  // A pre-release comes before its release.
  if (left.before === null || right.before === null) return left.before === null ? 1 : -1;
  return comparePreReleases(left.before, right.before);
}

function parsed(version: string) {
  const found = /^(\d{1,18})\.(\d{1,18})\.(\d{1,18})(?:-([0-9A-Za-z.-]+))?(?:\+.*)?$/.exec(version);
  if (found === null) return null;
  return { numbers: found.slice(1, 4).map(BigInt), before: found[4]?.split('.') ?? null };
}

function comparePreReleases(one: readonly string[], other: readonly string[]): number {
  for (const [index, part] of one.entries()) {
    const counterpart = other[index];
    if (counterpart === undefined) return 1;
    if (part === counterpart) continue;
    const [isNumber, isOtherNumber] = [/^\d+$/.test(part), /^\d+$/.test(counterpart)];
    if (isNumber && isOtherNumber) return BigInt(part) < BigInt(counterpart) ? -1 : 1;
    if (isNumber !== isOtherNumber) return isNumber ? -1 : 1;
    return part < counterpart ? -1 : 1;
  }
  return -1;
}
