import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';

/** What Node has in a string in place of bytes that are not UTF-8. */
const REPLACEMENT = '\uFFFD';

/**
 * The names of variables that Node could not decode: their bytes are not UTF-8, so the value that they have here is not the one that
 * they were given. `environ` has the bytes that this process was started with.
 */
export function undecodableVariables(
  own: Readonly<Record<string, string | undefined>>,
  environ = '/proc/self/environ',
): ReadonlySet<string> {
  const suspects = Object.keys(own).filter((name) => `${name}${own[name]}`.includes(REPLACEMENT));
  if (suspects.length === 0) return new Set();
  const undecodable = undecodableNames(environ);
  return new Set(suspects.filter((name) => undecodable?.has(name) ?? true));
}

/** Null where the bytes are not known. */
function undecodableNames(environ: string): Set<string> | null {
  let bytes: Buffer;
  try {
    bytes = readFileSync(environ);
  } catch {
    return null;
  }
  const names = new Set<string>();
  for (let start = 0; start < bytes.length; ) {
    const found = bytes.indexOf(0, start);
    const end = found === -1 ? bytes.length : found;
    const entry = bytes.subarray(start, end);
    if (!isUtf8(entry)) names.add(entry.toString().split('=', 1)[0]!);
    start = end + 1;
  }
  return names;
}
