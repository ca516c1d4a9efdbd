import { refused } from './errors.ts';
import { MAX_GLOB_LENGTH, MAX_GLOBS } from './limits.ts';

/**
 * A glob of paths below a root, with the syntax of ignore files and ripgrep's `--glob`: `?` is one character, `*` any number of
 * characters, `[a-z]` and `[!a-z]` a character set, `{a,b}` alternatives, a backslash escapes the next character, and `**` as a
 * whole name matches any number of directories. A slash at the start or in the middle anchors the glob to the root; without one it
 * matches names at any depth. A slash at the end matches directories only.
 *
 * Matching takes at most time proportional to the lengths of glob and path. Globs come from clients and are matched on the event
 * loop, where a backtracking regular expression could block the server.
 */
export class Glob {
  readonly directoriesOnly: boolean;
  readonly #names: readonly NamePattern[];

  private constructor(text: string) {
    const body = text.replace(/^\.\//, '');
    this.directoriesOnly = body.endsWith('/');
    const names = body.replace(/^\/+|\/+$/g, '').split(/\/+/);
    if (names.join('') === '') throw refused(`glob \`${text}\` is empty`);
    const anchored = names.length > 1 || body.startsWith('/');
    this.#names = [...(anchored ? [] : [ANY_DIRECTORIES]), ...names.map((name) => parseName(name, text))];
  }

  /** Parses globs. Braces expand to one glob per alternative. */
  static parseAll(texts: readonly string[]): Glob[] {
    const globs: Glob[] = [];
    for (const text of texts) {
      if (text.length > MAX_GLOB_LENGTH) {
        throw refused(`a glob is longer than ${MAX_GLOB_LENGTH} characters`);
      }
      const choices = expandBraces(text, MAX_GLOBS - globs.length);
      globs.push(...choices.map((choice) => new Glob(choice)));
    }
    return globs;
  }

  /** Whether the whole path matches. It is relative to the root and split at its slashes. */
  matches(path: readonly string[], isDirectory: boolean): boolean {
    if (this.directoriesOnly && !isDirectory) return false;
    return matchPath(this.#names, path);
  }

  /**
   * The glob in ripgrep's syntax, or null when ripgrep could match something else: there, `?` and sets match bytes, and trailing
   * white space is lost.
   */
  get forRipgrep(): string | null {
    if (this.#names.some((name) => name?.some((token) => !isKnownToRipgrep(token)))) return null;
    const names = this.#names.map((name) => name?.map(ripgrepToken).join('') ?? '**');
    return `/${names.join('/')}${this.directoriesOnly ? '/' : ''}`;
  }

  /** The pattern of the name alone in ripgrep's syntax, if the glob matches names at any depth. */
  get nameForRipgrep(): string | null {
    const [first, ...rest] = this.#names;
    if (first !== ANY_DIRECTORIES || rest.length !== 1 || this.directoriesOnly) return null;
    return this.forRipgrep?.slice('/**/'.length) ?? null;
  }
}

/** `**`. */
const ANY_DIRECTORIES = null;
/** Any number of characters. */
const STAR = '*';

/** A literal character, a character set, or a star. */
type Token = { readonly character: string } | CharacterSet | typeof STAR;
type NamePattern = readonly Token[] | typeof ANY_DIRECTORIES;

interface CharacterSet {
  readonly negated: boolean;
  /** First and last character of each range. A negated empty set matches every character. */
  readonly ranges: readonly (readonly [string, string])[];
}

/** Backtracks only to the last `**` and extends it. Earlier ones need not be retried. */
function matchPath(names: readonly NamePattern[], path: readonly string[]): boolean {
  let name = 0;
  let step = 0;
  let retryName = -1;
  let retryStep = 0;
  while (step < path.length) {
    const pattern = names[name];
    if (pattern === ANY_DIRECTORIES) {
      // A final `**` matches everything below, but at least one name.
      if (name === names.length - 1) return true;
      retryName = ++name;
      retryStep = step;
    } else if (pattern !== undefined && matchName(pattern, path[step]!)) {
      name++;
      step++;
    } else {
      if (retryName < 0) return false;
      name = retryName;
      step = ++retryStep;
    }
  }
  return name === names.length;
}

/** The same for the characters of a name, with the last star. */
function matchName(tokens: readonly Token[], name: string): boolean {
  let token = 0;
  let index = 0;
  let retryToken = -1;
  let retryIndex = 0;
  while (index < name.length) {
    const expected = tokens[token];
    const character = String.fromCodePoint(name.codePointAt(index)!);
    if (expected === STAR) {
      retryToken = ++token;
      retryIndex = index;
    } else if (expected !== undefined && matchCharacter(expected, character)) {
      token++;
      index += character.length;
    } else {
      if (retryToken < 0) return false;
      token = retryToken;
      retryIndex += name.codePointAt(retryIndex)! > 0xffff ? 2 : 1;
      index = retryIndex;
    }
  }
  while (tokens[token] === STAR) token++;
  return token === tokens.length;
}

function matchCharacter(token: { readonly character: string } | CharacterSet, character: string): boolean {
  if ('character' in token) return token.character === character;
  const code = character.codePointAt(0)!;
  const within = token.ranges.some(
    ([first, last]) => first.codePointAt(0)! <= code && code <= last.codePointAt(0)!,
  );
  return within !== token.negated;
}

function parseName(name: string, glob: string): NamePattern {
  if (name === '**') return ANY_DIRECTORIES;
  const characters = [...name];
  const tokens: Token[] = [];
  for (let index = 0; index < characters.length; index++) {
    const character = characters[index]!;
    if (character === '*') {
      if (tokens.at(-1) !== STAR) tokens.push(STAR);
    } else if (character === '?') {
      tokens.push({ negated: true, ranges: [] });
    } else if (character === '[') {
      // A `]` right at the start of a set is a member.
      const start = index + (/[!^]/.test(characters[index + 1] ?? '') ? 2 : 1);
      const end = characters.indexOf(']', start + 1);
      if (end < 0) throw refused(`glob \`${glob}\` has a \`[\` without its \`]\``);
      tokens.push({
        negated: start === index + 2,
        ranges: parseRanges(characters.slice(start, end), glob),
      });
      index = end;
    } else if (character === '\\') {
      const escaped = characters[++index];
      if (escaped === undefined) throw refused(`glob \`${glob}\` ends in a backslash`);
      tokens.push({ character: escaped });
    } else {
      tokens.push({ character });
    }
  }
  return tokens;
}

function parseRanges(members: readonly string[], glob: string): [string, string][] {
  const ranges: [string, string][] = [];
  for (let index = 0; index < members.length; index++) {
    const first = members[index]!;
    const isRange = members[index + 1] === '-' && index + 2 < members.length;
    const last = isRange ? members[index + 2]! : first;
    if (first === '\\') throw refused(`glob \`${glob}\` has a backslash in a set`);
    if (first > last) throw refused(`glob \`${glob}\` has the range \`${first}-${last}\`, which is empty`);
    ranges.push([first, last]);
    if (isRange) index += 2;
  }
  return ranges;
}

/** Replaces the first group of braces by each alternative until no group is left. */
function expandBraces(glob: string, limit: number): string[] {
  const open: string[] = [glob];
  const expanded: string[] = [];
  while (open.length > 0) {
    if (open.length + expanded.length > limit) {
      throw refused(`globs stand for more than ${MAX_GLOBS} patterns`);
    }
    const text = open.pop()!;
    const group = findBraces(text, glob);
    if (group === null) expanded.push(text);
    else open.push(...group);
  }
  return expanded;
}

/** The text with each alternative in place of its first group of braces; null when it has no group. */
function findBraces(text: string, glob: string): string[] | null {
  let depth = 0;
  let start = -1;
  let cuts: number[] = [];
  for (let index = 0; index < text.length; index++) {
    const character = text[index];
    if (character === '\\') index++;
    else if (character === '[') index = endOfSet(text, index);
    else if (character === '{' && depth++ === 0) {
      start = index;
      cuts = [index];
    } else if (character === ',' && depth === 1) cuts.push(index);
    else if (character === '}') {
      if (depth-- === 0) throw refused(`glob \`${glob}\` has a \`}\` without its \`{\``);
      if (depth > 0) continue;
      cuts.push(index);
      return cuts.slice(1).map((cut, choice) => {
        return text.slice(0, start) + text.slice(cuts[choice]! + 1, cut) + text.slice(index + 1);
      });
    }
  }
  if (depth > 0) throw refused(`glob \`${glob}\` has a \`{\` without its \`}\``);
  return null;
}

/** The index of the bracket that closes a set; the index of the opening bracket if the set is not closed. */
function endOfSet(text: string, start: number): number {
  const end = text.indexOf(']', start + (/[!^]/.test(text[start + 1] ?? '') ? 3 : 2));
  return end < 0 ? start : end;
}

function isKnownToRipgrep(token: Token): boolean {
  return token === STAR || ('character' in token && !/[^\S ]|[\x00-\x1f]/.test(token.character));
}

function ripgrepToken(token: Token): string {
  if (token === STAR || !('character' in token)) return STAR;
  return /[\w.-]|[^\x00-\x7f]/.test(token.character) ? token.character : `\\${token.character}`;
}
