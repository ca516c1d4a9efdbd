import { isTable, type TomlTable } from './toml-files.ts';

/** Which parts of a table are wanted: by key, everything below it or only some of it. */
export type Selection = ReadonlyMap<string, Selection | 'everything'>;

/** A selection by paths of keys. A path that another one contains adds nothing. */
export function selectionOf(paths: readonly (readonly string[])[]): Selection {
  const root: MutableSelection = new Map();
  for (const path of paths) select(root, path);
  return root;
}

/** What is wanted of a table, in its own order. What stands where the selection goes on, and is no table, is kept as it is. */
export function selected(table: TomlTable, selection: Selection): TomlTable {
  const kept: [string, unknown][] = [];
  for (const [key, value] of Object.entries(table)) {
    const wanted = selection.get(key);
    if (wanted === undefined) continue;
    kept.push([key, wanted === 'everything' || !isTable(value) ? value : selected(value, wanted)]);
  }
  return Object.fromEntries(kept);
}

type MutableSelection = Map<string, MutableSelection | 'everything'>;

function select(root: MutableSelection, path: readonly string[]): void {
  let selection = root;
  for (const [index, key] of path.entries()) {
    const known = selection.get(key);
    if (known === 'everything') return;
    if (index === path.length - 1) {
      selection.set(key, 'everything');
      return;
    }
    const next: MutableSelection = known ?? new Map();
    selection.set(key, next);
    selection = next;
  }
}
