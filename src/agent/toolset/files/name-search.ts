import type { Ignore } from 'ignore';
import type { TreeEntry } from '../../../client/files/list-tree.ts';
import { FileError } from '../../../files/errors.ts';
import { GlobSet } from '../../../files/glob-set.ts';
import type { Call } from '../call.ts';
import { ToolFailure } from '../failure.ts';
import { MAX_SEARCHED_ENTRIES } from '../limits.ts';
import { listLevels, nameOf } from './list-levels.ts';
import { filesOf, type OpenPath } from './open-file.ts';

/** What a search for names has found. Paths are relative to its directory. */
interface FoundNames {
  readonly paths: readonly { readonly path: string; readonly isDirectory: boolean }[];
  /** Why it is not complete. */
  readonly truncated: 'results' | 'time' | 'size' | null;
  readonly unreadable: number;
}

interface NameQuery {
  readonly glob: string;
  readonly includeHidden: boolean;
  readonly respectIgnoreFiles: boolean;
  readonly maxResults: number;
  readonly until: number;
}

/**
 * Finds files and directories by a glob, level by level. Links are not followed. Unless hidden names are included, it leaves them out, and
 * what the .gitignore and .ignore files of the searched directories name.
 */
export async function searchNames(call: Call, root: OpenPath, query: NameQuery): Promise<FoundNames> {
  const globs = globsOf(query.glob);
  const found: { path: string; isDirectory: boolean }[] = [];
  let [examined, unreadable] = [0, 0];
  const { default: ignore } = await import('ignore');
  for await (const listed of listLevels<Rules>(call, root, [])) {
    const { directory, entries } = listed;
    if (listed.error !== null) {
      unreadable++;
      continue;
    }
    const own = query.respectIgnoreFiles ? await ignoreRules(call, root, entries, ignore) : null;
    const rules = own === null ? directory.data : [{ path: directory.path, rules: own }, ...directory.data];
    for (const entry of entries) {
      if (++examined > MAX_SEARCHED_ENTRIES) return { paths: found, truncated: 'size', unreadable };
      const name = nameOf(entry);
      const path = directory.path + name;
      const isDirectory = entry.kind === 'directory';
      if (name.startsWith('.') && !query.includeHidden) continue;
      if (query.respectIgnoreFiles && (name === '.git' || isIgnored(rules, path, isDirectory))) continue;
      if (globs.matches(path, isDirectory)) {
        if (found.length >= query.maxResults) return { paths: found, truncated: 'results', unreadable };
        found.push({ path, isDirectory });
      }
      if (isDirectory) listed.enter(entry, rules);
    }
    if (performance.now() > query.until) return { paths: found, truncated: 'time', unreadable };
  }
  return { paths: found, truncated: null, unreadable };
}

/** The rules of ignore files, the deepest directory first. */
type Rules = readonly { readonly path: string; readonly rules: Ignore }[];

function globsOf(glob: string): GlobSet {
  try {
    return GlobSet.parse([glob]);
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    throw new ToolFailure(
      `The glob is not valid: ${error.message}. Examples: *.ts, src/**/*.test.ts, {a,b}.json`,
    );
  }
}

async function ignoreRules(
  call: Call,
  { options }: OpenPath,
  entries: readonly TreeEntry[],
  ignore: () => Ignore,
): Promise<Ignore | null> {
  const files = entries.filter(
    (entry) =>
      entry.kind === 'file' && IGNORE_FILES.includes(nameOf(entry)) && entry.size <= MAX_IGNORE_BYTES,
  );
  if (files.length === 0) return null;
  const rules = ignore();
  for (const { uri } of files) {
    const bytes = await filesOf(call)
      .readFile(uri, options)
      .catch(() => new Uint8Array(0));
    rules.add(Buffer.from(bytes).toString());
  }
  return rules;
}

/** The rules of the deepest directory decide first. */
function isIgnored(rules: Rules, path: string, isDirectory: boolean): boolean {
  for (const { path: start, rules: own } of rules) {
    const verdict = own.test(path.slice(start.length) + (isDirectory ? '/' : ''));
    if (verdict.ignored || verdict.unignored) return verdict.ignored;
  }
  return false;
}

const IGNORE_FILES = ['.gitignore', '.ignore'];
const MAX_IGNORE_BYTES = 256 * 1024;
