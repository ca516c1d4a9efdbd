import { type Answer, type Call, defineTool } from '../call.ts';
import { MAX_LINE_CHARACTERS, MAX_SCANNED_BYTES } from '../limits.ts';
import { type ArgumentsOf, integer, text } from '../parameters.ts';
import { budgetOf, MAX_TOKENS } from '../process/process-answer.ts';
import { resourceOf } from '../resource-uri.ts';
import { describeBinary, isBinary } from '../text/budget.ts';
import { shownLine } from '../text/visible.ts';
import { LineReader } from './line-reader.ts';
import { filesOf, type OpenPath, openPath, pathFailure, regularFile } from './open-file.ts';

const PARAMETERS = {
  path: text('The file, absolute or relative to the working directory.'),
  start_line: integer('First line to return, from 1. Default 1.', { minimum: 1 }),
  max_lines: integer('Most lines to return. Default: as many as fit.', { minimum: 1 }),
  max_output_tokens: MAX_TOKENS,
} as const;

type Arguments = ArgumentsOf<typeof PARAMETERS, 'path'>;

export const READ_FILE = defineTool({
  name: 'read_file',
  title: 'Read a file',
  description:
    'Returns lines of a text file with their numbers, and where to continue. The number and the tab before a line are not part of the file. Binary files are described.',
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  parameters: PARAMETERS,
  required: ['path'],
  summary: null,
  run: readFile,
});

async function readFile(args: Arguments, call: Call): Promise<Answer> {
  const path = await openPath(call, args.path);
  const facts = await regularFile(call, path);
  const startLine = args.start_line ?? 1;
  const reader = new LineReader({
    startLine,
    maxLines: args.max_lines ?? Number.POSITIVE_INFINITY,
    maxBytes: budgetOf(call, args.max_output_tokens),
    maxLineCharacters: MAX_LINE_CHARACTERS,
  });
  const first = await scan(call, path, reader);
  if (first !== null) return binaryAnswer(call, path, facts.size, first);
  const isComplete = reader.scannedBytes >= facts.size;
  const { lines, totalLines, isCut, hasCrlf } = reader.finish(isComplete);
  const endLine = startLine + lines.length - 1;
  const nextLine = reader.hasMore ? endLine + 1 : null;
  const next =
    nextLine === null
      ? 'Next: nothing; this is the end of the file.'
      : `Next: read_file with start_line ${nextLine} returns the following lines.`;
  const range =
    lines.length === 0
      ? `no line from ${startLine} on${totalLines === null ? '' : `; the file has ${totalLines}`}`
      : `lines ${startLine} to ${endLine}${totalLines === null ? '' : ` of ${totalLines}`}`;
  const shown = lines.map(shownLine);
  const notes = [
    ...(shown.some((line, index) => line !== lines[index]) ? [ESCAPES] : []),
    ...(hasCrlf ? ['The lines end with CRLF.'] : []),
    ...(isCut ? [`Lines are cut after ${MAX_LINE_CHARACTERS} characters.`] : []),
    ...(!isComplete && !reader.hasMore
      ? [
          'Only the first part of this large file was looked at; use exec_command with sed or tail for the rest.',
        ]
      : []),
  ];
  const numbered = shown.map((line, index) => `${String(startLine + index).padStart(6)}\t${line}`);
  return {
    text: [`${path.shown}: ${range}, ${facts.size} bytes.`, ...notes, next, ...numbered].join('\n'),
    structured: {
      environment: call.target.name,
      path: path.native,
      size: facts.size,
      start_line: startLine,
      end_line: endLine,
      total_lines: totalLines,
      next_line: nextLine,
      ...(hasCrlf && { line_endings: 'crlf' }),
      ...(isCut && { lines_cut: true }),
      content: lines.join('\n'),
      next,
    },
    resources:
      nextLine === null
        ? []
        : [resourceOf(call.target.name, { type: 'file', uri: path.uri }, { size: facts.size })],
  };
}

const ESCAPES =
  'Control characters and those that hide or reorder text are shown as escapes such as \\u{1b}; the file has the characters.';

/** Passes the file to the reader. Returns the first bytes of a file that is not text, else null. */
async function scan(call: Call, path: OpenPath, reader: LineReader): Promise<Uint8Array | null> {
  try {
    let isFirst = true;
    for await (const block of filesOf(call).readFileStream(path.uri, path.options)) {
      if (isFirst && isBinary(block)) return block;
      isFirst = false;
      if (reader.push(block) || reader.scannedBytes >= MAX_SCANNED_BYTES) break;
    }
    return null;
  } catch (error) {
    throw pathFailure(call, path, error);
  }
}

function binaryAnswer(call: Call, { uri, native, shown }: OpenPath, size: number, first: Uint8Array): Answer {
  const next = 'Next: use exec_command with a program that reads this format, or xxd to see the bytes.';
  const content = describeBinary(first, size);
  return {
    text: `${shown}: ${content}\n${next}`,
    structured: { environment: call.target.name, path: native, size, binary: true, content, next },
    resources: [
      resourceOf(call.target.name, { type: 'file', uri }, { mimeType: 'application/octet-stream', size }),
    ],
  };
}
