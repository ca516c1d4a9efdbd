import { ClientError } from '../../../client/errors.ts';
import { toNativePath } from '../../../client/paths.ts';
import type { SearchResult } from '../../../environment/index.ts';
import { type Answer, type Call, defineTool } from '../call.ts';
import { ToolFailure } from '../failure.ts';
import {
  DEFAULT_SEARCH_RESULTS,
  MAX_MATCH_CHARACTERS,
  MAX_SEARCH_RESULTS,
  SEARCH_TIMEOUT_MS,
} from '../limits.ts';
import { type ArgumentsOf, flag, integer, text } from '../parameters.ts';
import { budgetOf } from '../process/process-answer.ts';
import { fitting } from '../text/lines.ts';
import { shownLine, shownName } from '../text/visible.ts';
import { realDirectory } from './list-levels.ts';
import { factsOf, filesOf, missing, type OpenPath, openPath, pathFailure } from './open-file.ts';

const PARAMETERS = {
  pattern: text('A text to find in files. Without it, files and directories are found by name.'),
  regex: flag(
    'Whether the pattern is a regular expression, as of ripgrep. Default false: it is a plain text.',
  ),
  case_sensitive: flag('Default true.'),
  glob: text(
    'Which files: *.ts matches names at any depth, src/**/*.ts paths below the directory, docs/ everything in docs.',
  ),
  path: text(
    'The directory or file to search, absolute or relative to the working directory, which is the default.',
  ),
  include_hidden: flag('Also search hidden files and what .gitignore files leave out. Default false.'),
  max_results: integer(`Most results to return. Default ${DEFAULT_SEARCH_RESULTS}.`, {
    minimum: 1,
    maximum: MAX_SEARCH_RESULTS,
  }),
} as const;

type Arguments = ArgumentsOf<typeof PARAMETERS, never>;

export const SEARCH_FILES = defineTool({
  name: 'search_files',
  title: 'Search files',
  description:
    'Finds lines in files by a text or a regular expression, or files and directories by a glob. Says what was not searched.',
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  parameters: PARAMETERS,
  required: [],
  summary: null,
  run: searchFiles,
});

async function searchFiles(args: Arguments, call: Call): Promise<Answer> {
  const { pattern, glob } = args;
  if (pattern === undefined && glob === undefined)
    throw new ToolFailure('Pass "pattern" to search in files, "glob" to search for names, or both.');
  if (pattern === '') throw new ToolFailure('The pattern is empty. Leave it out to search for names.');
  const path = await openPath(call, args.path ?? '.');
  const facts = await factsOf(call, path);
  if (facts === null) throw await missing(call, path);
  return pattern === undefined
    ? byName(args, call, path, facts.isDirectory)
    : byContent(pattern, args, call, path);
}

async function byContent(pattern: string, args: Arguments, call: Call, path: OpenPath): Promise<Answer> {
  const { sandbox } = path.options;
  const result = await filesOf(call)
    .search(path.uri, pattern, {
      literal: !args.regex,
      caseSensitive: args.case_sensitive ?? true,
      ...(args.glob !== undefined && { include: [args.glob] }),
      includeHidden: args.include_hidden ?? false,
      respectIgnoreFiles: !args.include_hidden,
      maxResults: args.max_results ?? DEFAULT_SEARCH_RESULTS,
      timeoutMs: SEARCH_TIMEOUT_MS,
      signal: call.signal,
      ...(sandbox !== undefined && { sandbox: sandbox as never }),
    })
    .catch((error: unknown) => {
      if (error instanceof ClientError && error.kind === 'invalidInput')
        throw new ToolFailure(`The search is not valid: ${error.message}. Correct the pattern or the glob.`);
      throw pathFailure(call, path, error);
    });
  const found = result.matches.map(({ path: uri, line, text: matched }) => ({
    path: relativeTo(path, toNativePath(uri)),
    line,
    text: matched.slice(0, MAX_MATCH_CHARACTERS),
  }));
  const { items: matches, lines } = fitting(
    found,
    budgetOf(call, undefined),
    (match) => `${shownName(match.path)}:${match.line}: ${shownLine(match.text)}`,
  );
  const truncated = matches.length < found.length ? 'results' : (result.truncated ?? null);
  const notes = limitNotes(truncated, result.unreadable ?? 0, result);
  const next =
    matches.length === 0 ? NOTHING : 'Next: read_file with start_line shows the lines around a match.';
  return {
    text: [
      `${matches.length} matching ${matches.length === 1 ? 'line' : 'lines'} in ${path.shown}.`,
      ...notes,
      next,
      ...lines,
    ].join('\n'),
    structured: {
      environment: call.target.name,
      path: path.native,
      matches,
      truncated,
      unreadable: result.unreadable ?? 0,
      next,
    },
  };
}

async function byName(args: Arguments, call: Call, path: OpenPath, isDirectory: boolean): Promise<Answer> {
  if (!isDirectory) throw new ToolFailure(`${path.shown} is a file. Search for names in a directory.`);
  const includeHidden = args.include_hidden ?? false;
  // The code for globs and ignore files is loaded for those who search for names.
  const { searchNames } = await import('./name-search.ts');
  const found = await searchNames(call, await realDirectory(call, path), {
    glob: args.glob!,
    includeHidden,
    respectIgnoreFiles: !includeHidden,
    maxResults: args.max_results ?? DEFAULT_SEARCH_RESULTS,
    until: performance.now() + SEARCH_TIMEOUT_MS,
  });
  const names = found.paths
    .map(({ path: name, isDirectory: isFolder }) => (isFolder ? `${name}/` : name))
    .sort();
  const { items: paths, lines } = fitting(names, budgetOf(call, undefined), shownName);
  const truncated = paths.length < names.length ? 'results' : found.truncated;
  const notes = limitNotes(truncated, found.unreadable);
  const next = paths.length === 0 ? NOTHING : 'Next: read_file returns the content of a file.';
  return {
    text: [`${paths.length} names in ${path.shown} match.`, ...notes, next, ...lines].join('\n'),
    structured: {
      environment: call.target.name,
      path: path.native,
      paths,
      truncated,
      unreadable: found.unreadable,
      next,
    },
  };
}

const NOTHING =
  'Next: try another pattern, glob or directory; hidden and ignored files need include_hidden true.';

function limitNotes(
  truncated: 'results' | 'time' | 'size' | null,
  unreadable: number,
  { incompleteFiles = [] }: Partial<SearchResult> = {},
): string[] {
  const files = incompleteFiles
    .slice(0, 5)
    .map((uri) => shownName(toNativePath(uri)))
    .join(', ');
  return [
    ...(truncated === 'results'
      ? ['There are more results than returned: narrow the search, or raise max_results.']
      : []),
    ...(truncated === 'time' ? ['The time was up before everything was searched: narrow the search.'] : []),
    ...(truncated === 'size'
      ? [
          `Not everything was searched, because it is too large${files === '' ? '' : `: ${files}`}. Narrow the search.`,
        ]
      : []),
    ...(unreadable > 0
      ? [`${unreadable} files or directories could not be read and were not searched.`]
      : []),
  ];
}

function relativeTo({ native }: OpenPath, path: string): string {
  return path.startsWith(`${native}/`) ? path.slice(native.length + 1) : path;
}
