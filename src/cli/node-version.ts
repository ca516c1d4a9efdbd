/**
 * The supported lines of Node, and the first minor version of each that can require ES modules. `engines` in package.json says the same.
 */
const FIRST_MINOR_OF_LINE: ReadonlyMap<number, number> = new Map([
  [20, 19],
  [22, 12],
  [24, 0],
]);
const FIRST_OPEN_LINE = 26;

/** Returns a warning for a version of Node that the program is not tested with; null for a supported one. */
export function nodeVersionWarning(version: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const isSupported =
    major >= FIRST_OPEN_LINE || minor >= (FIRST_MINOR_OF_LINE.get(major) ?? Number.POSITIVE_INFINITY);
  if (isSupported) return null;
  return `exec-server: warning: Node ${version} is not supported and not tested; use Node 20.19, 22.12, 24 or 26, or a later release of these lines`;
}
