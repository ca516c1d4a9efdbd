/** The supported versions of Node: major lines, and the first version of the oldest. `engines` in package.json says the same. */
const LINES: readonly number[] = [20, 22, 24];
const FIRST_MINOR_OF_20 = 19;
const FIRST_OPEN_LINE = 26;

/** Returns a warning for a version of Node that the program is not tested with; null for a supported one. */
export function nodeVersionWarning(version: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const isSupported =
    major >= FIRST_OPEN_LINE || (LINES.includes(major) && (major > 20 || minor >= FIRST_MINOR_OF_20));
  if (isSupported) return null;
  return `exec-server: warning: Node ${version} is not supported and not tested; use Node 20.19 or later of line 20, or 22, 24, 26 or later`;
}
