import { posix } from 'node:path';
import type { ApprovalRequest } from '../agent/toolset/index.ts';
import { escapeUnprintable } from '../base/unprintable.ts';
import { MAX_EXCERPT_CHARS, MAX_QUESTION_CHARS } from './limits.ts';

/**
 * What the user is asked before a call: the whole effect, not only what the model wants to be seen. `directory` is where relative paths
 * begin; null for the default directory of the environment. A text of the model never has a line break, a control character or an
 * invisible one, so that it cannot look like another question.
 */
export function questionText(request: ApprovalRequest, directory: string | null): string {
  const { title, environment, summary } = request;
  return `${title} (${shown(environment)})${effectOf(request, directory) ?? `: ${excerpt(summary, MAX_QUESTION_CHARS)}`}`;
}

function effectOf({ tool, arguments: args }: ApprovalRequest, directory: string | null): string | null {
  const text = (name: string) => String(args[name] ?? '');
  const sized = (name: string) => `${sizeOf(text(name))}: ${quotedExcerpt(text(name), MAX_EXCERPT_CHARS)}`;
  switch (tool) {
    case 'exec_command':
      return ` in ${place(text('workdir'), directory)}: ${excerpt(text('cmd'), MAX_QUESTION_CHARS)}`;
    case 'write_stdin':
      return `: type ${quotedExcerpt(text('chars'), MAX_QUESTION_CHARS)} into ${shown(text('process'))}`;
    case 'write_file':
      return `: write ${place(text('path'), directory)}\nwith ${sized('content')}`;
    case 'edit_file': {
      const which = args.replace_all === true ? 'each occurrence of ' : '';
      const path = place(text('path'), directory);
      return `: edit ${path}\nreplace ${which}${sized('old_text')}\nby ${sized('new_text')}`;
    }
    default:
      return null;
  }
}

/** A path with the directory that it begins at. */
function place(path: string, directory: string | null): string {
  if (directory !== null) return shownPath(posix.resolve(directory, path));
  if (path === '') return 'the default directory';
  return posix.isAbsolute(path) ? shownPath(path) : `${shownPath(path)} in the default directory`;
}

/** A path has quotes where it could be taken for more than a path. */
function shownPath(path: string): string {
  return /^[\p{L}\p{M}\p{N}@%+=,./~_-]+$/u.test(path)
    ? excerpt(path, MAX_EXCERPT_CHARS)
    : quotedExcerpt(path, MAX_EXCERPT_CHARS);
}

function sizeOf(text: string): string {
  const bytes = Buffer.byteLength(text);
  return bytes === 1 ? '1 byte' : `${bytes} bytes`;
}

/** The text as it is, or in quotes with escapes where it has characters that are not seen as they are. */
function shown(text: string): string {
  return escapeUnprintable(text) === text && !/\p{Surrogate}/u.test(text) ? text : quoted(text);
}

function quoted(text: string): string {
  return escapeUnprintable(JSON.stringify(text));
}

function excerpt(text: string, length: number): string {
  return withoutMiddle(text, length, shown);
}

function quotedExcerpt(text: string, length: number): string {
  return withoutMiddle(text, length, quoted);
}

/** The beginning and the end of a long text: what matters may be at its end. */
function withoutMiddle(text: string, length: number, show: (part: string) => string): string {
  if (text.length <= length) return show(text);
  const half = Math.floor(length / 2);
  const left = `[${text.length - 2 * half} characters are not shown]`;
  return `${show(text.slice(0, half))} … ${left} … ${show(text.slice(-half))}`;
}
