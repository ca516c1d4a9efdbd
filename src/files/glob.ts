import { refused } from './errors.ts';
import { MAX_GLOB_CHARACTERS, MAX_GLOB_LENGTH, MAX_GLOBS } from './limits.ts';

/**
 * A glob of paths below a root, with the syntax of ignore files and ripgrep's `--glob`: `?` is one character, `*` any number of
 * characters, `[a-z]` and `[!a-z]` a character set, `{a,b}` alternatives, a backslash escapes the next character, and `**` as a
 * whole name matches any number of directories. A slash at the start or in the middle anchors the glob to the root; without one it
 * matches names at any depth. A slash at the end matches directories only. `GlobSet` matches paths.
 */
export class Glob {
  readonly directoriesOnly: boolean;
  /** The patterns of the names from the root on. There are no two {@link ANY_DIRECTORIES} in a row. */
  readonly names: readonly NamePattern[];

  private constructor(text: string) {
    const body = text.replace(/^\.\//, '');
    this.directoriesOnly = body.endsWith('/');
    const names = body.split('/').filter((name) => name !== '');
    if (names.length === 0) throw refused(`glob \`${text}\` is empty`);
    const anchored = names.length > 1 || body.startsWith('/');
    const patterns = [...(anchored ? [] : [ANY_DIRECTORIES]), ...names.map((name) => parseName(name, text))];
    this.names = patterns.filter((name, index) => name !== ANY_DIRECTORIES || name !== patterns[index - 1]);
  }

  /** Parses globs. Braces expand to one glob per alternative. */
  static parseAll(texts: readonly string[]): Glob[] {
    const globs: Glob[] = [];
    let [written, expanded] = [0, 0];
    for (const text of texts) {
      if (text.length > MAX_GLOB_LENGTH) {
        throw refused(`a glob is longer than ${MAX_GLOB_LENGTH} characters`);
      }
      written += text.length;
      const choices = written > MAX_GLOB_CHARACTERS ? [] : expandBraces(text, MAX_GLOBS - globs.length);
      expanded += lengthOf(choices);
      if (Math.max(written, expanded) > MAX_GLOB_CHARACTERS) throw tooLong();
      globs.push(...choices.map((choice) => new Glob(choice)));
    }
    return globs;
  }

  /**
   * The glob in ripgrep's syntax, or null when ripgrep could match something else: there, `?` and sets match bytes, and trailing
   * white space is lost.
   */
  get forRipgrep(): string | null {
    if (this.names.some((name) => name?.some((token) => !isKnownToRipgrep(token)))) return null;
    const names = this.names.map((name) => name?.map(ripgrepToken).join('') ?? '**');
    return `/${names.join('/')}${this.directoriesOnly ? '/' : ''}`;
  }

  /** The pattern of the name alone in ripgrep's syntax, if the glob matches names at any depth. */
  get nameForRipgrep(): string | null {
    const [first, ...rest] = this.names;
    if (first !== ANY_DIRECTORIES || rest.length !== 1 || this.directoriesOnly) return null;
    return this.forRipgrep?.slice('/**/'.length) ?? null;
  }
}

/** `**`. */
export const ANY_DIRECTORIES = null;
/** Any number of characters. */
export const STAR = '*';

/** A literal character, a character set, or a star. */
type Token = { readonly character: string } | CharacterSet | typeof STAR;
export type NamePattern = readonly Token[] | typeof ANY_DIRECTORIES;

export interface CharacterSet {
  readonly negated: boolean;
  /** First and last code point of each range. A negated empty set matches every character. */
  readonly ranges: readonly (readonly [number, number])[];
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

function parseRanges(members: readonly string[], glob: string): [number, number][] {
  const ranges: [number, number][] = [];
  for (let index = 0; index < members.length; index++) {
    const first = members[index]!;
    const isRange = members[index + 1] === '-' && index + 2 < members.length;
    const last = isRange ? members[index + 2]! : first;
    if (first === '\\') throw refused(`glob \`${glob}\` has a backslash in a set`);
    if (first > last) throw refused(`glob \`${glob}\` has the range \`${first}-${last}\`, which is empty`);
    ranges.push([first.codePointAt(0)!, last.codePointAt(0)!]);
    if (isRange) index += 2;
  }
  return ranges;
}

/** The glob with each combination of its alternatives. Reads it once, so that nested groups are not slower. */
function expandBraces(glob: string, limit: number): string[] {
  /** The enclosing groups: the texts before the group, and its complete alternatives. */
  const groups: { readonly before: readonly string[]; readonly choices: string[] }[] = [];
  let texts = [''];
  const append = (more: readonly string[]) => {
    if (texts.length * more.length > limit) throw tooMany();
    texts = texts.flatMap((text) => more.map((end) => text + end));
    if (texts.length > 1 && lengthOf(texts) > MAX_GLOB_CHARACTERS) throw tooLong();
  };
  for (const part of glob.match(PARTS) ?? []) {
    const group = groups.at(-1);
    if (part === '{') {
      groups.push({ before: texts, choices: [] });
      texts = [''];
    } else if (group !== undefined && (part === ',' || part === '}')) {
      group.choices.push(...texts);
      if (group.choices.length > limit) throw tooMany();
      texts = [''];
      if (part === ',') continue;
      groups.pop();
      texts = [...group.before];
      append(group.choices);
    } else if (part === '}') {
      throw refused(`glob \`${glob}\` has a \`}\` without its \`{\``);
    } else {
      append([part]);
    }
  }
  if (groups.length > 0) throw refused(`glob \`${glob}\` has a \`{\` without its \`}\``);
  return texts;
}

/**
 * Parts of a glob: a brace, a comma, an escape, a set, whose braces and commas are members, or other characters. A set that is not
 * closed is one part, which is refused later.
 */
const PARTS = /[{},]|\\.?|\[(?:[!^].[^\]]*|.[^\]]*)\]|\[.*|[^{},\\[]+/gs;

function lengthOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length, 0);
}

function tooLong(): Error {
  return refused(`globs have more than ${MAX_GLOB_CHARACTERS} characters in all`);
}

function tooMany(): Error {
  return refused(`globs stand for more than ${MAX_GLOBS} patterns`);
}
function isKnownToRipgrep(token: Token): boolean {
  return token === STAR || ('character' in token && !/[^\S ]|[\x00-\x1f]/.test(token.character));
}

function ripgrepToken(token: Token): string {
  if (token === STAR || !('character' in token)) return STAR;
  return /[\w.-]|[^\x00-\x7f]/.test(token.character) ? token.character : `\\${token.character}`;
}
