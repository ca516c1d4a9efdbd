import {
  existsSync,
  lstatSync,
  type PathLike,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  type Stats,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';

/** The entries of some trees by path, each as a text with its type, permissions and content. */
export type HostTree = ReadonlyMap<string, string>;

/** Reads everything at and below the paths, without following links. Paths that do not exist are left out. */
export function hostTree(roots: readonly string[]): HostTree {
  const tree = new Map<string, string>();
  const pending = [...roots];
  for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
    const entry = entryAt(path);
    if (entry === null) continue;
    tree.set(path, entry);
    if (entry.startsWith('directory')) pending.push(...readdirSync(path).map((name) => join(path!, name)));
  }
  return tree;
}

/** An entry of the host as a text. Null when it does not exist. */
export function entryAt(path: PathLike): string | null {
  const stats = statsOf(path);
  if (stats === null) return null;
  const mode = (stats.mode & 0o7777).toString(8);
  if (stats.isSymbolicLink()) return `link ${readlinkSync(path)}`;
  if (stats.isDirectory()) return `directory ${mode}`;
  return stats.isFile() ? `file ${mode} ${readFileSync(path, 'utf8')}` : `special ${mode}`;
}

function statsOf(path: PathLike): Stats | null {
  try {
    return lstatSync(path);
  } catch {
    return null;
  }
}

/** The part of a tree at and below a path, with relative paths. */
export function subtree(tree: HostTree, path: string): Record<string, string> {
  const inside = [...tree].filter(([entry]) => entry === path || entry.startsWith(`${path}/`));
  return Object.fromEntries(inside.map(([entry, text]) => [entry.slice(path.length), text]));
}

/** The paths whose entries differ, with what happened to each. */
export function changes(
  before: HostTree,
  after: HostTree,
): ReadonlyMap<string, 'made' | 'removed' | 'changed'> {
  const found = new Map<string, 'made' | 'removed' | 'changed'>();
  for (const [path, text] of after) {
    const old = before.get(path);
    if (old === undefined) found.set(path, 'made');
    else if (old !== text) found.set(path, 'changed');
  }
  for (const path of before.keys()) if (!after.has(path)) found.set(path, 'removed');
  return found;
}

/** Where an entry at the path is or would be made, with links resolved, also dangling ones. */
export function resolvedPath(path: string, links = 40): string {
  if (links === 0) return path;
  const parent = path === '/' ? '/' : resolvedPath(dirname(path), links - 1);
  const place = join(parent, basename(path));
  if (existsSync(place)) return realpathSync(place);
  return statsOf(place)?.isSymbolicLink()
    ? resolvedPath(resolve(parent, readlinkSync(place)), links - 1)
    : place;
}

/** The same without following a link at the end. */
export function resolvedEntry(path: string): string {
  return join(resolvedPath(dirname(path)), basename(path));
}
