import { isTable, type TomlTable } from './toml-files.ts';

/** The requested parts of a table: by key, everything below it or a further selection. */
export type Selection = ReadonlyMap<string, Selection | 'everything'>;

/** A selection by key paths. A path that another one contains adds nothing. */
export function selectionOf(paths: readonly (readonly string[])[]): Selection {
  const root: MutableSelection = new Map();
  for (const path of paths) select(root, path);
  return root;
}

/** The requested part of a table, in the table's order. A value that is not a table is kept, even if the selection goes deeper. */
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
