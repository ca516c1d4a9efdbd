import { Composer, isAlias, isMap, isScalar, isSeq, Lexer, type Node, Parser } from 'yaml';
import { isObject } from '../../base/is-object.ts';
import {
  MAX_YAML_DEPTH,
  MAX_YAML_ERROR_LENGTH,
  MAX_YAML_EXPANDED_LENGTH,
  MAX_YAML_LENGTH,
  MAX_YAML_TOKENS,
} from '../limits.ts';

/** A YAML document in which every scalar is text or null. The code that reads a member knows its type. */
export type YamlValue = string | null | readonly YamlValue[] | { readonly [key: string]: YamlValue };

/** The text is not valid YAML, or exceeds a limit. */
export class YamlError extends Error {
  override readonly name: string = 'YamlError';

  constructor(message: string) {
    super(message.slice(0, MAX_YAML_ERROR_LENGTH).replace(/\p{Surrogate}$/u, ''));
  }
}

/** The text may be valid YAML, but exceeds a limit of this server. */
export class YamlLimitError extends YamlError {
  override readonly name = 'YamlLimitError';
}

/** Parses one document of YAML 1.2. Tags are ignored; keys must be unique. */
export function parseYaml(text: string): YamlValue {
  if (text.length > MAX_YAML_LENGTH) {
    throw new YamlLimitError(`it is longer than ${MAX_YAML_LENGTH} characters`);
  }
  // The library's own check of unique keys compares every key with every other one.
  const composer = new Composer({ schema: 'failsafe', uniqueKeys: false, prettyErrors: false });
  const [document, second] = composer.compose(tokensOf(text));
  if (document === undefined) return null;
  if (second !== undefined) throw new YamlError('it has more than one document');
  const [error] = document.errors;
  if (error !== undefined) throw new YamlError(error.message);
  return new Converter().valueOf(document.contents, 0);
}

/**
 * Parses the front matter of a skill. If it is not valid YAML, values that only lack quotes are quoted, as the reference does:
 * values with a colon, and values that start with a bracket, an `@` or a backtick.
 */
export function parseFrontMatter(text: string): YamlValue {
  try {
    return parseYaml(text);
  } catch (error) {
    if (!(error instanceof YamlError) || text.length > MAX_YAML_LENGTH) throw error;
    const quoted = withQuotes(text);
    if (quoted === text) throw error;
    return parseYaml(quoted);
  }
}

/** Whether a value is a mapping. */
export function isYamlMap(value: YamlValue | undefined): value is { readonly [key: string]: YamlValue } {
  return isObject(value);
}

/** Stops at the limits of depth and tokens, before the parser spends time and stack on more. */
function tokensOf(text: string) {
  const parser = new Parser();
  const tokens = [];
  let count = 0;
  for (const lexeme of new Lexer().lex(text)) {
    if (++count > MAX_YAML_TOKENS) throw new YamlLimitError(`it has more than ${MAX_YAML_TOKENS} tokens`);
    tokens.push(...parser.next(lexeme));
    // The stack also holds the document and the scalar.
    if (parser.stack.length > MAX_YAML_DEPTH + 3) throw tooDeep();
  }
  tokens.push(...parser.end());
  return tokens;
}

class Converter {
  /** The values of anchors and their sizes. Aliases share the values, but count as copies: callers may copy them. */
  readonly #anchors = new Map<string, { readonly value: YamlValue; readonly size: number }>();
  /** Values and characters so far, with the aliases replaced. */
  #size = 0;

  valueOf(node: unknown, depth: number): YamlValue {
    if (isAlias(node)) return this.#aliased(node.source);
    const before = this.#size;
    const value = this.#convert(node, depth);
    this.#size += 1 + (typeof value === 'string' ? value.length : 0);
    const { anchor } = (node ?? {}) as Partial<Node>;
    if (anchor !== undefined) this.#anchors.set(anchor, { value, size: this.#size - before });
    return value;
  }

  #convert(node: unknown, depth: number): YamlValue {
    if (node === null) return null;
    if (isScalar(node)) {
      const isPlain = node.type === 'PLAIN' && node.tag === undefined;
      return isPlain && NULL.test(node.source ?? '') ? null : textOf(node.value);
    }
    if (depth > MAX_YAML_DEPTH) throw tooDeep();
    if (isSeq(node)) return node.items.map((item) => this.valueOf(item, depth + 1));
    if (!isMap(node)) throw new YamlError('it has a node of an unknown kind');
    const entries = new Map<string, YamlValue>();
    for (const { key, value } of node.items) {
      const name = this.valueOf(key, depth + 1);
      if (typeof name !== 'string') throw new YamlError('a key is not text');
      if (entries.has(name)) throw new YamlError(`the key ${name} occurs twice`);
      entries.set(name, this.valueOf(value, depth + 1));
    }
    return Object.fromEntries(entries);
  }

  #aliased(name: string): YamlValue {
    const anchored = this.#anchors.get(name);
    if (anchored === undefined) throw new YamlError(`the alias ${name} has no anchor before it`);
    this.#size += anchored.size;
    if (this.#size > MAX_YAML_EXPANDED_LENGTH) {
      throw new YamlLimitError(`its aliases expand to more than ${MAX_YAML_EXPANDED_LENGTH} characters`);
    }
    return anchored.value;
  }
}

/** The plain scalars that mean null in the core schema. */
const NULL = /^(?:~|null|Null|NULL)?$/;

/** Lone surrogates cannot be encoded as UTF-8. */
function textOf(value: unknown): string {
  const text = String(value);
  if (/\p{Surrogate}/u.test(text)) throw new YamlError('it has an escape that is not a Unicode character');
  return text;
}

function tooDeep(): YamlError {
  return new YamlLimitError(`it is nested more than ${MAX_YAML_DEPTH} levels deep`);
}

/** Quotes the values that need it, line by line. Block scalars stay as they are. */
function withQuotes(text: string): string {
  let blockIndent: number | null = null;
  const lines = text.split('\n').map((line) => {
    const indent = line.length - line.trimStart().length;
    if (blockIndent !== null && (line.trim() === '' || indent > blockIndent)) return line;
    blockIndent = null;
    const key = KEY.exec(line)?.[0];
    if (key === undefined) return line;
    const comment = line.slice(key.length).search(/\s#/);
    const value = line.slice(key.length, comment < 0 ? undefined : key.length + comment).trim();
    if (/^[|>]/.test(value)) blockIndent = indent;
    return needsQuotes(value) ? key + JSON.stringify(value) : line;
  });
  return lines.join('\n');
}

/** A plain key up to its value, in a list or not. */
const KEY = /^\s*(?:- +)*[^\s"'#:-][^:]*:[ \t]+/;

function needsQuotes(value: string): boolean {
  if (/^["'|>&*!%?-]/.test(value) || /^(?:\[.*\]|\{.*\})$/.test(value)) return false;
  return /^[[{@`]|:[ \t]/.test(value);
}
