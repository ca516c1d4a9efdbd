import { NetworkError } from '../../../errors.ts';
import { MAX_GROUP_DEPTH, MAX_PATTERN_LENGTH, MAX_REPEAT, MAX_REPEATS_OF_REPEATS } from '../limits.ts';
import {
  type Assertion,
  type CharRange,
  complement,
  DIGITS,
  inEitherCase,
  LINE_END,
  type PatternNode,
  SPACE,
  WORD,
} from './syntax.ts';

/**
 * Parses the subset of regular expressions that describes formats of credentials: characters and sets, groups, choices, repetitions,
 * `^ $ \A \z \b \B`, and the flags `i` and `s`. Digits, words and spaces are those of ASCII. Throws NetworkError on anything else,
 * because credentials of an unknown format could not be masked.
 */
export function parsePattern(text: string): PatternNode {
  if (text.length > MAX_PATTERN_LENGTH) {
    throw new NetworkError('invalid', `a pattern is longer than ${MAX_PATTERN_LENGTH} characters`);
  }
  return new PatternReader(text).read();
}

interface Flags {
  readonly ignoreCase: boolean;
  readonly dotAll: boolean;
}

class PatternReader {
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  read(): PatternNode {
    const node = this.#choice({ ignoreCase: false, dotAll: false });
    if (this.#at < this.#text.length) throw this.#wrong('a `)` has no `(`');
    return node;
  }

  #choice(outer: Flags): PatternNode {
    let flags = outer;
    const options: PatternNode[] = [];
    let parts: PatternNode[] = [];
    for (;;) {
      const char = this.#peek();
      if (char === undefined || char === ')' || char === '|') {
        options.push({ kind: 'sequence', parts });
        if (char !== '|') return options.length === 1 ? options[0]! : { kind: 'choice', options };
        parts = [];
        this.#at++;
        continue;
      }
      const set = this.#flagsAlone(flags);
      if (set === null) parts.push(this.#repeated(this.#atom(flags)));
      else flags = set;
    }
  }

  /** `(?i)`, which applies to the rest of the group. */
  #flagsAlone(flags: Flags): Flags | null {
    const [whole = '', letters = ''] = this.#match(/\(\?([a-z]+)\)/y) ?? [];
    return whole === '' ? null : this.#withFlags(flags, letters);
  }

  #atom(flags: Flags): PatternNode {
    const char = this.#text[this.#at++]!;
    if (char === '(') return this.#group(flags);
    if (char === '[') return { kind: 'set', ranges: cased(this.#set(), flags) };
    if (char === '\\') return this.#escape(flags);
    if (char === '.') return { kind: 'set', ranges: complement(flags.dotAll ? [] : LINE_END) };
    if (char === '^') return { kind: 'assertion', assertion: 'start' };
    if (char === '$') return { kind: 'assertion', assertion: 'end' };
    if ('*+?{'.includes(char)) throw this.#wrong(`\`${char}\` repeats nothing`);
    return { kind: 'set', ranges: cased([[char.charCodeAt(0), char.charCodeAt(0)]], flags) };
  }

  #group(outer: Flags): PatternNode {
    if (++this.#depth > MAX_GROUP_DEPTH) throw this.#wrong('groups are nested too deep');
    const [, letters = ''] = this.#match(/\?(?:P?<[A-Za-z_][A-Za-z0-9_]*>|([a-z]*):)/y) ?? [];
    if (this.#peek() === '?') throw this.#wrong('this kind of group is not supported');
    const node = this.#choice(this.#withFlags(outer, letters));
    if (this.#peek() !== ')') throw this.#wrong('a `(` has no `)`');
    this.#at++;
    this.#depth--;
    return node;
  }

  #withFlags(flags: Flags, letters: string): Flags {
    const unknown = [...letters].find((letter) => !'is'.includes(letter));
    if (unknown !== undefined) throw this.#wrong(`the flag \`${unknown}\` is not supported`);
    return {
      ignoreCase: flags.ignoreCase || letters.includes('i'),
      dotAll: flags.dotAll || letters.includes('s'),
    };
  }

  #repeated(part: PatternNode): PatternNode {
    let node = part;
    for (let count = 0; ; count++) {
      const bounds = this.#bounds();
      if (bounds === null) return node;
      if (count >= MAX_REPEATS_OF_REPEATS) throw this.#wrong('repetitions are repeated too often');
      // Matching would loop without consuming a character.
      if (!hasCharacters(node)) throw this.#wrong('a repetition repeats nothing');
      // A lazy quantifier matches the same texts.
      if (this.#peek() === '?') this.#at++;
      node = { kind: 'repeat', part: node, ...bounds };
    }
  }

  #bounds(): { readonly min: number; readonly max: number } | null {
    const [sign = ''] = this.#match(/[*+?]/y) ?? [];
    if (sign !== '') {
      return { min: sign === '+' ? 1 : 0, max: sign === '?' ? 1 : Number.POSITIVE_INFINITY };
    }
    if (this.#peek() !== '{') return null;
    const [, low = '', comma = '', high = ''] = this.#match(/\{(\d{1,9})(,?)(\d{0,9})\}/y) ?? [];
    if (low === '') throw this.#wrong('a `{` does not begin a repetition');
    const min = Number(low);
    const max = comma === '' ? min : high === '' ? Number.POSITIVE_INFINITY : Number(high);
    if (max < min) throw this.#wrong('the maximum of a repetition is less than its minimum');
    if (min > MAX_REPEAT || (max > MAX_REPEAT && max !== Number.POSITIVE_INFINITY)) {
      throw this.#wrong(`something is repeated more than ${MAX_REPEAT} times`);
    }
    return { min, max };
  }

  #escape(flags: Flags): PatternNode {
    const assertion = ASSERTIONS[this.#peek() ?? ''];
    if (assertion !== undefined) {
      this.#at++;
      return { kind: 'assertion', assertion };
    }
    return { kind: 'set', ranges: cased(this.#escapedRanges(), flags) };
  }

  /** What follows a backslash, inside or outside brackets. */
  #escapedRanges(): readonly CharRange[] {
    const char = this.#peek() ?? '';
    const named = CLASSES[char];
    if (named !== undefined) {
      this.#at++;
      return named;
    }
    const [, pair, braced] = this.#match(/x([0-9A-Fa-f]{2})|[xu]\{([0-9A-Fa-f]{1,4})\}/y) ?? [];
    const code = pair ?? braced;
    if (code !== undefined) return [[Number.parseInt(code, 16), Number.parseInt(code, 16)]];
    const control = CONTROLS[char];
    if (control === undefined && (char === '' || /[A-Za-z0-9]/.test(char))) {
      throw this.#wrong(`\`\\${char}\` is not supported`);
    }
    this.#at++;
    const unit = control ?? char.charCodeAt(0);
    return [[unit, unit]];
  }

  #set(): readonly CharRange[] {
    const negated = this.#match(/\^/y) !== null;
    const ranges: CharRange[] = [];
    for (let isFirst = true; isFirst || this.#peek() !== ']'; isFirst = false) {
      const low = this.#member();
      const [[from, to] = [0, 0]] = low;
      const isRange = this.#peek() === '-' && this.#text[this.#at + 1] !== ']';
      if (!isRange) {
        ranges.push(...low);
        continue;
      }
      this.#at++;
      const high = this.#member();
      const [[, end] = [0, 0]] = high;
      if (low.length > 1 || high.length > 1 || from !== to || end < from)
        throw this.#wrong('invalid range in `[]`');
      ranges.push([from, end]);
    }
    this.#at++;
    return negated ? complement(ranges) : ranges;
  }

  #member(): readonly CharRange[] {
    const char = this.#peek();
    if (char === undefined) throw this.#wrong('a `[` has no `]`');
    // In other dialects these are nested sets and set operations.
    if (char === '[' || this.#match(/&&|--|~~/y) !== null) throw this.#wrong('nested sets are not supported');
    this.#at++;
    if (char === '\\') return this.#escapedRanges();
    return [[char.charCodeAt(0), char.charCodeAt(0)]];
  }

  #peek(): string | undefined {
    return this.#text[this.#at];
  }

  #match(sticky: RegExp): RegExpExecArray | null {
    sticky.lastIndex = this.#at;
    const match = sticky.exec(this.#text);
    this.#at += match?.[0].length ?? 0;
    return match;
  }

  #wrong(what: string): NetworkError {
    return new NetworkError('invalid', `a pattern cannot be used (at character ${this.#at}): ${what}`);
  }
}

/** Whether the node can match a character. */
function hasCharacters(node: PatternNode): boolean {
  switch (node.kind) {
    case 'set':
      return true;
    case 'assertion':
      return false;
    case 'sequence':
      return node.parts.some(hasCharacters);
    case 'choice':
      return node.options.some(hasCharacters);
    case 'repeat':
      return node.max > 0 && hasCharacters(node.part);
  }
}

/** Normalises the ranges so that no two overlap. */
function cased(ranges: readonly CharRange[], { ignoreCase }: Flags): readonly CharRange[] {
  return complement(complement(ignoreCase ? inEitherCase(ranges) : ranges));
}

const ASSERTIONS: Readonly<Record<string, Assertion>> = {
  A: 'start',
  z: 'end',
  b: 'wordBoundary',
  B: 'noWordBoundary',
};

const CLASSES: Readonly<Record<string, readonly CharRange[]>> = {
  d: DIGITS,
  w: WORD,
  s: SPACE,
  D: complement(DIGITS),
  W: complement(WORD),
  S: complement(SPACE),
};

const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13 };
