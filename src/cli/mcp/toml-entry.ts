import { isObject } from '../../base/is-object.ts';
import { RunError } from '../failures.ts';

type Parse = (text: string) => Record<string, unknown>;

/**
 * Sets keys of the table `[SECTION.NAME]`, or adds the table at the end. Everything else keeps its form and place: comments, other keys
 * of the table, and tables below it. `check` may refuse the table as it is. Throws RunError for a file that cannot be changed so.
 */
export async function mergeTomlEntry(
  file: string,
  text: string,
  [section, name]: readonly [string, string],
  entry: Readonly<Record<string, string | readonly string[]>>,
  check: (own: unknown) => void,
): Promise<string> {
  const toml = await import('smol-toml');
  const parse: Parse = (each) => toml.parse(each, { integersAsBigInt: 'asNeeded' });
  let before: Record<string, unknown>;
  try {
    before = parse(text);
  } catch (error) {
    const [reason] = (error as Error).message.split('\n');
    throw new RunError(`${file} is not valid TOML (${reason}); correct it first`);
  }
  const siblings = isObject(before[section]) ? before[section] : {};
  const own = isObject(siblings[name]) ? siblings[name] : {};
  check(own);
  const changed = replaced(text, [section, name], entry, parse);
  const wanted = { ...before, [section]: { ...siblings, [name]: { ...own, ...entry } } };
  if (!sameValues(parsedOrNull(parse, changed), wanted)) {
    throw new RunError(`${file} has an unusual form and cannot be changed safely; edit it by hand`);
  }
  return changed;
}

/** A table in TOML. */
export function tomlTable(
  [section, name]: readonly [string, string],
  entry: Readonly<Record<string, string | readonly string[]>>,
): string {
  return `[${section}.${name}]\n${Object.entries(entry)
    .map(([key, value]) => tomlLine(key, value))
    .join('')}`;
}

function tomlLine(key: string, value: string | readonly string[]): string {
  const json =
    typeof value === 'string'
      ? JSON.stringify(value)
      : `[${value.map((item) => JSON.stringify(item)).join(', ')}]`;
  return `${key} = ${json}\n`;
}

function replaced(
  text: string,
  path: readonly [string, string],
  entry: Readonly<Record<string, string | readonly string[]>>,
  parse: Parse,
): string {
  const [section, name] = path;
  const header = new RegExp(
    `^[ \\t]*\\[[ \\t]*${section}[ \\t]*\\.[ \\t]*(?:${name}|"${name}"|'${name}')[ \\t]*\\]`,
  );
  const tables = text.split(/^(?=[ \t]*\[)/m);
  const index = tables.findIndex((table) => header.test(table));
  if (index === -1) {
    const separator = text === '' || text.endsWith('\n\n') ? '' : text.endsWith('\n') ? '\n' : '\n\n';
    return `${text}${separator}${tomlTable(path, entry)}`;
  }
  let table = tables[index]!;
  if (!table.endsWith('\n')) table += '\n';
  for (const [key, value] of Object.entries(entry)) table = withKey(table, key, value, parse);
  return tables.with(index, table).join('');
}

/** A table with another value of a key, or with the key as its first one. */
function withKey(table: string, key: string, value: string | readonly string[], parse: Parse): string {
  const lines = table.split(/(?<=\n)/);
  const first = lines.findIndex((line) =>
    new RegExp(`^[ \\t]*(?:${key}|"${key}"|'${key}')[ \\t]*=`).test(line),
  );
  const line = tomlLine(key, value);
  if (first === -1) return [lines[0], line, ...lines.slice(1)].join('');
  // The value ends where the lines so far are complete.
  for (let last = first; last < lines.length; last += 1) {
    const old = lines.slice(first, last + 1).join('');
    const found = parsedOrNull(parse, old);
    if (found === null) continue;
    if (sameValues(found, { [key]: value })) return table;
    return [...lines.slice(0, first), line.trimEnd(), commentOf(old, parse), ...lines.slice(last + 1)].join(
      '',
    );
  }
  return table;
}

/** What follows the value: a comment, if there is one, and the end of the line. */
function commentOf(assignment: string, parse: Parse): string {
  for (let hash = assignment.indexOf('#'); hash !== -1; hash = assignment.indexOf('#', hash + 1)) {
    if (parsedOrNull(parse, assignment.slice(0, hash)) !== null) return ` ${assignment.slice(hash)}`;
  }
  return '\n';
}

function parsedOrNull(parse: Parse, text: string): Record<string, unknown> | null {
  try {
    return parse(text);
  } catch {
    return null;
  }
}

/** Whether two values are the same, in whichever order their keys are. */
function sameValues(a: unknown, b: unknown): boolean {
  return JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
}

function sorted(value: unknown): unknown {
  if (typeof value === 'bigint') return `${value}n`;
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value) || value instanceof Date) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, sorted(inner)]),
  );
}
