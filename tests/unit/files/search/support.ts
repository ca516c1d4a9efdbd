import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import {
  nativePathOfBytes,
  nativePathOfText,
  parentPath,
  systemPath,
} from '../../../../src/files/native-path.ts';
import { ContentSearch } from '../../../../src/files/search/content-search.ts';
import {
  completeQuery,
  type EngineName,
  type SearchMatch,
  type SearchQuery,
} from '../../../../src/files/search/query.ts';
import { findRipgrep } from '../../../../src/files/search/ripgrep-engine.ts';

/** Whether ripgrep is installed. Without it only the builtin engine is tested, and a message says so. */
export const hasRipgrep = (await findRipgrep(process.env.PATH ?? '')) !== null;
if (!hasRipgrep) console.warn('ripgrep is missing: searches are tested with the builtin engine alone');

export const ENGINES: readonly EngineName[] = hasRipgrep ? ['ripgrep', 'builtin'] : ['builtin'];

/** A search that uses this engine, whether or not ripgrep is installed. */
export function searchWith(engine: EngineName): ContentSearch {
  return new ContentSearch(engine === 'ripgrep' ? (process.env.PATH ?? '') : '');
}

/** A query with a time limit for a busy machine. */
export function queryFor(root: string, pattern: string, changes: Partial<SearchQuery> = {}): SearchQuery {
  return completeQuery({ path: nativePathOfText(root), pattern, timeoutMs: 30_000, ...changes });
}

/** Matches as `path:line:column:text`, with paths relative to the root, in bytes. */
export function lines(matches: readonly SearchMatch[], root: string): string[] {
  const start = nativePathOfText(root).length + 1;
  return matches.map(({ path, line, column, text }) => `${path.slice(start)}:${line}:${column}:${text}`);
}

/** A fresh directory for one test with the given files; names are in bytes, one per character. */
export function makeTree(files: Readonly<Record<string, string | Buffer>>): string {
  const root = mkdtempSync(join(tmpdir(), 'search-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) {
    const path = nativePathOfBytes(`${root}/${name}`);
    mkdirSync(systemPath(parentPath(path)), { recursive: true });
    writeFileSync(systemPath(path), content);
  }
  return root;
}
