import { TextDecoder } from 'node:util';
import { type Answer, type Call, defineTool } from '../call.ts';
import { ToolFailure } from '../failure.ts';
import { MAX_EDITED_BYTES } from '../limits.ts';
import { type ArgumentsOf, flag, text } from '../parameters.ts';
import { type EditResult, replaceExactly } from '../text/exact-edit.ts';
import { quoted } from '../text/visible.ts';
import {
  changing,
  filesOf,
  type OpenPath,
  openPath,
  pathFailure,
  regularFile,
  requireWritable,
} from './open-file.ts';
import { replace } from './write-file.ts';

const PARAMETERS = {
  path: text('The file, absolute or relative to the working directory.'),
  old_text: text('The text to replace, exactly as in the file, with enough lines around it to be unique.'),
  new_text: text('The text to put in its place.'),
  replace_all: flag('Replace every occurrence. Default false: the text must occur exactly once.'),
} as const;

type Arguments = ArgumentsOf<typeof PARAMETERS, 'path' | 'old_text' | 'new_text'>;

export const EDIT_FILE = defineTool({
  name: 'edit_file',
  title: 'Edit a file',
  description:
    'Replaces an exact text in a file. The text must occur once, unless replace_all is true. The file changes in one step or not at all, and keeps its mode and line endings.',
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: false },
  parameters: PARAMETERS,
  required: ['path', 'old_text', 'new_text'],
  summary: ({ path }) => `edit ${path}`,
  run: editFile,
});

async function editFile(args: Arguments, call: Call): Promise<Answer> {
  const { old_text: before, new_text: after, replace_all: all = false } = args;
  if (before === '')
    throw new ToolFailure('"old_text" is empty. To create or replace a whole file, use write_file.');
  if (before === after) throw new ToolFailure('"old_text" and "new_text" are the same. Nothing was changed.');
  requireWritable(call, args.path);
  const path = await openPath(call, args.path);
  return changing(call, path, async () => {
    const facts = await regularFile(call, path);
    if (facts.size > MAX_EDITED_BYTES)
      throw new ToolFailure(
        `${path.shown} has ${facts.size} bytes, which is too large. Use exec_command with sed.`,
      );
    const result = replaceExactly(await readText(call, path), before, after, all, MAX_EDITED_BYTES);
    if ('problem' in result) throw editFailure(path, result);
    const { size, modifiedAtMs } = await regularFile(call, path);
    if (size !== facts.size || modifiedAtMs !== facts.modifiedAtMs) {
      throw new ToolFailure(
        `${path.shown} was changed by another program in the meantime. Nothing was written. Read it again, then repeat the edit.`,
        { kind: 'conflict' },
      );
    }
    const bytes = Buffer.from(result.text);
    await replace(call, path, bytes, true);
    const times = result.count === 1 ? 'once' : `${result.count} times`;
    const next = 'Next: nothing; the file is written.';
    return {
      text: `${path.shown}: replaced ${times}, at line ${result.lines.join(', ')}.\n${next}`,
      structured: {
        environment: call.target.name,
        path: path.native,
        replacements: result.count,
        lines: result.lines,
        size: bytes.length,
        next,
      },
    };
  });
}

/** Reads a file that is UTF-8. Its byte order mark is kept. */
async function readText(call: Call, path: OpenPath): Promise<string> {
  const bytes = await filesOf(call)
    .readFile(path.uri, path.options)
    .catch((error: unknown) => {
      throw pathFailure(call, path, error);
    });
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new ToolFailure(`${path.shown} is not UTF-8 text. Edit it with a program, by exec_command.`);
  }
}

function editFailure({ shown }: OpenPath, result: Extract<EditResult, { problem: string }>): ToolFailure {
  if (result.problem === 'severalMatches') {
    const { count, lines } = result;
    return new ToolFailure(
      `The text occurs ${count} times in ${shown}, at line ${lines.join(', ')}${count > lines.length ? ' and others' : ''}. Nothing was changed. Add lines around it until it is unique, or pass replace_all true.`,
      { kind: 'severalMatches', matches: count, lines },
    );
  }
  if (result.problem === 'tooLarge') {
    const { count, bytes } = result;
    return new ToolFailure(
      `With ${count} ${count === 1 ? 'replacement' : 'replacements'} ${shown} would have ${bytes} bytes, and ${MAX_EDITED_BYTES} are possible. Nothing was changed. Use exec_command with sed.`,
      { kind: 'tooLarge', matches: count },
    );
  }
  const { nearest } = result;
  const hint =
    nearest === null
      ? 'No line is like it. read_file shows the present content.'
      : nearest.isBlankDifference
        ? `Line ${nearest.line} differs in white space only: ${quoted(nearest.text)}. Copy the text exactly.`
        : `The nearest line is ${nearest.line}: ${quoted(nearest.text)}. read_file shows the present content.`;
  return new ToolFailure(`The text does not occur in ${shown} (0 matches). Nothing was changed. ${hint}`, {
    kind: 'noMatch',
    matches: 0,
    ...(nearest !== null && { nearest_line: nearest.line }),
  });
}
