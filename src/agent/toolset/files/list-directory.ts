import type { TreeEntry } from '../../../client/files/list-tree.ts';
import { type Answer, type Call, defineTool } from '../call.ts';
import { ToolFailure } from '../failure.ts';
import {
  DEFAULT_LISTED_ENTRIES,
  MAX_EXAMINED_ENTRIES,
  MAX_LISTED_DEPTH,
  MAX_LISTED_ENTRIES,
} from '../limits.ts';
import { type ArgumentsOf, integer, text } from '../parameters.ts';
import { budgetOf } from '../process/process-answer.ts';
import { fitting } from '../text/lines.ts';
import { shownName } from '../text/visible.ts';
import { listLevels, nameOf, realDirectory } from './list-levels.ts';
import { factsOf, missing, type OpenPath, openPath, pathFailure } from './open-file.ts';

const PARAMETERS = {
  path: text('The directory, absolute or relative to the working directory, which is the default.'),
  depth: integer('How many levels to list. Default 1: only what is directly in it.', {
    minimum: 1,
    maximum: MAX_LISTED_DEPTH,
  }),
  max_entries: integer(`Most entries to return. Default ${DEFAULT_LISTED_ENTRIES}.`, {
    minimum: 1,
    maximum: MAX_LISTED_ENTRIES,
  }),
} as const;

type Arguments = ArgumentsOf<typeof PARAMETERS, never>;

export const LIST_DIRECTORY = defineTool({
  name: 'list_directory',
  title: 'List a directory',
  description:
    'Lists what is in a directory, sorted by path: directories end with a slash, files have their size, links have their target. Links are not followed. Names with control characters are in quotes, as in JSON.',
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  parameters: PARAMETERS,
  required: [],
  summary: null,
  run: listDirectory,
});

/** An entry with its path relative to the directory. */
interface Listed {
  readonly path: string;
  readonly entry: TreeEntry;
}

async function listDirectory(args: Arguments, call: Call): Promise<Answer> {
  const path = await openPath(call, args.path ?? '.');
  const facts = await factsOf(call, path);
  if (facts === null) throw await missing(call, path);
  if (!facts.isDirectory)
    throw new ToolFailure(`${path.shown} is a file, not a directory. read_file returns its content.`);
  const { entries, unread, isComplete } = await levels(call, path, args.depth ?? 1);
  entries.sort((one, other) => (one.path < other.path ? -1 : 1));
  const wanted = entries.slice(0, args.max_entries ?? DEFAULT_LISTED_ENTRIES);
  const { items: shown, lines } = fitting(wanted, budgetOf(call, undefined), lineOf);
  const omitted = entries.length - shown.length;
  // A larger number helps only while the answer has space.
  const canRaise = shown.length === wanted.length && wanted.length < MAX_LISTED_ENTRIES;
  const next =
    omitted > 0 || !isComplete
      ? `Next: use search_files with a glob, or list a subdirectory${canRaise ? ', or raise max_entries' : ''}.`
      : 'Next: read_file returns the content of a file.';
  const notes = [
    ...(omitted > 0 ? [`${omitted} more entries are not shown.`] : []),
    ...(isComplete
      ? []
      : [`There are more than ${MAX_EXAMINED_ENTRIES} entries; the others were not looked at.`]),
    ...(unread > 0 ? [`${unread} directories could not be read.`] : []),
  ];
  return {
    text: [
      `${path.shown}: ${entries.length} ${entries.length === 1 ? 'entry' : 'entries'}.`,
      ...notes,
      next,
      ...lines,
    ].join('\n'),
    structured: {
      environment: call.target.name,
      path: path.native,
      entries: shown.map(dataOf),
      omitted_entries: omitted,
      complete: isComplete && unread === 0,
      next,
    },
  };
}

/** Lists level by level. Unreadable directories below the first are counted. */
async function levels(
  call: Call,
  root: OpenPath,
  depth: number,
): Promise<{ readonly entries: Listed[]; readonly unread: number; readonly isComplete: boolean }> {
  const entries: Listed[] = [];
  let unread = 0;
  for await (const listed of listLevels(call, await realDirectory(call, root), depth)) {
    const { directory, error } = listed;
    if (error !== null && directory.path === '') throw pathFailure(call, root, error);
    if (error !== null) unread++;
    const depthLeft = directory.data - 1;
    for (const entry of listed.entries) {
      if (entries.length >= MAX_EXAMINED_ENTRIES) return { entries, unread, isComplete: false };
      entries.push({ path: directory.path + nameOf(entry), entry });
      if (entry.kind === 'directory' && depthLeft > 0) listed.enter(entry, depthLeft);
    }
  }
  return { entries, unread, isComplete: true };
}

function lineOf({ path, entry: { kind, size, target } }: Listed): string {
  if (kind === 'directory') return shownName(`${path}/`);
  const name = shownName(path);
  if (kind === 'symlink') return `${name} -> ${shownName(String(target))}`;
  return kind === 'file' ? `${name} (${size} bytes)` : `${name} (device, pipe or socket)`;
}

function dataOf({ path, entry: { kind, size, target } }: Listed) {
  return { path, type: kind, ...(kind === 'file' && { size }), ...(kind === 'symlink' && { target }) };
}
