import { useEffect, useState } from 'preact/hooks';
import type { ExecServerClient, FileEntry, PathAttributes } from '../../../../src/client/browser.ts';
import { describeError } from '../../base/format.ts';

interface FolderEntries {
  /** Folders first. Null until they are loaded. */
  readonly entries: readonly FileEntry[] | null;
  readonly error: string | null;
}

/** The entries of a folder, loaded again when files have changed. A folder that is not `shown` is not loaded. */
export function useFolder(client: ExecServerClient, path: string, shown = true): FolderEntries {
  const [state, setState] = useState<FolderEntries>({ entries: null, error: null });
  useEffect(() => {
    if (!shown) return;
    let current = true;
    const load = () =>
      client.files.list(path).then(
        (found) => current && setState({ entries: foldersFirst(found), error: null }),
        (failure) => current && setState({ entries: null, error: describeError(failure) }),
      );
    void load();
    addEventListener('filesChanged', load);
    return () => {
      current = false;
      removeEventListener('filesChanged', load);
    };
  }, [client, path, shown]);
  return state;
}

/** A larger folder is shown without sizes and times. */
const MAX_ENTRIES_WITH_ATTRIBUTES = 5000;
const NO_ATTRIBUTES: ReadonlyMap<string, PathAttributes> = new Map();

/** Size and time of the entries of a folder, by path. Empty on servers that list no attributes, and until they have arrived. */
export function useAttributes(
  client: ExecServerClient,
  path: string,
  entries: readonly FileEntry[] | null,
): ReadonlyMap<string, PathAttributes> {
  const [found, setFound] = useState(NO_ATTRIBUTES);
  useEffect(() => {
    if (entries === null || !client.capabilities.fsAttributes) return;
    if (entries.length > MAX_ENTRIES_WITH_ATTRIBUTES) return;
    let current = true;
    const load = async () => {
      const all = new Map<string, PathAttributes>();
      for await (const entry of client.files.tree(path, { recursive: false })) {
        if (!current) return;
        all.set(entry.path, entry);
      }
      setFound(all);
    };
    // The list of names is complete without them.
    load().catch(() => {});
    return () => {
      current = false;
    };
  }, [client, path, entries]);
  return found;
}

function foldersFirst(entries: readonly FileEntry[]): readonly FileEntry[] {
  const rank = ({ kind }: FileEntry) => (kind === 'directory' ? 0 : 1);
  return entries.toSorted((one, other) => rank(one) - rank(other) || one.name.localeCompare(other.name));
}
