import { MAX_YAML_DEPTH } from '../limits.ts';

/** What a YAML document holds. All scalars are texts; whoever reads them knows what they mean. */
export type YamlValue = string | null | readonly YamlValue[] | { readonly [key: string]: YamlValue };

/** A text that is no YAML, or uses what is not understood here. */
export class YamlError extends Error {
  override readonly name = 'YamlError';
}

/**
 * Reads the YAML that people write as metadata: mappings, lists, plain, quoted and block texts, flow collections on one line, and
 * comments. Anchors, tags and several documents are refused. A plain text may contain `: `, which people often forget to quote.
 */
export function parseYaml(text: string): YamlValue {
  const reader = new BlockReader(text.split(/\r?\n/));
  return reader.document();
}

/** Whether a value is a mapping. */
export function isYamlMap(value: YamlValue | undefined): value is { readonly [key: string]: YamlValue } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

interface Line {
  readonly indent: number;
  readonly text: string;
}

class BlockReader {
  readonly #lines: readonly string[];
  #at = 0;
  /** What is left of the line that a list's dash was taken from. */
  #rest: Line | null = null;

  constructor(lines: readonly string[]) {
    this.#lines = lines;
  }

  document(): YamlValue {
    const first = this.#peek();
    const value = first === null ? null : this.#block(first.indent, 0);
    const left = this.#peek();
    if (left !== null) throw new YamlError(`unexpected text: ${left.text}`);
    return value;
  }

  #block(indent: number, depth: number): YamlValue {
    if (depth > MAX_YAML_DEPTH) throw new YamlError('nested too deeply');
    const { text } = this.#peek()!;
    if (isItem(text)) return this.#list(indent, depth);
    if (keyOf(text) !== null) return this.#map(indent, depth);
    this.#take();
    return this.#scalar(text, indent - 1);
  }

  #list(indent: number, depth: number): YamlValue {
    const items: YamlValue[] = [];
    for (let line = this.#peek(); line?.indent === indent && isItem(line.text); line = this.#peek()) {
      this.#take();
      const inner = line.text.slice(1).trimStart();
      if (inner === '' || inner.startsWith('#')) {
        items.push(this.#below(indent, depth));
      } else {
        this.#rest = { indent: indent + line.text.length - inner.length, text: inner };
        items.push(this.#block(this.#rest.indent, depth + 1));
      }
    }
    return items;
  }

  #map(indent: number, depth: number): YamlValue {
    const entries = new Map<string, YamlValue>();
    for (let line = this.#peek(); line?.indent === indent; line = this.#peek()) {
      const found = keyOf(line.text);
      if (found === null) throw new YamlError(`expected a key: ${line.text}`);
      if (entries.has(found.key)) throw new YamlError(`the key ${found.key} occurs twice`);
      this.#take();
      entries.set(found.key, this.#value(found.value, indent, depth));
    }
    return Object.fromEntries(entries);
  }

  #value(text: string, indent: number, depth: number): YamlValue {
    if (text === '' || text.startsWith('#')) return this.#below(indent, depth, true);
    return this.#scalar(text, indent);
  }

  /** What stands on the lines that follow; a list may begin where its key does. */
  #below(indent: number, depth: number, ofKey = false): YamlValue {
    const next = this.#peek();
    if (next === null || next.indent < indent) return null;
    if (next.indent === indent && !(ofKey && isItem(next.text))) return null;
    return this.#block(next.indent, depth + 1);
  }

  /** A text that may go on on lines that are indented further than `indent`. */
  #scalar(text: string, indent: number): YamlValue {
    if (/^[&*!]/.test(text)) throw new YamlError(`not understood here: ${text}`);
    const block = /^([|>])([-+]?)([1-9]?)([-+]?)(?:\s+#.*)?$/.exec(text);
    if (block !== null) {
      const [, style, before, deeper, behind] = block;
      const own = deeper === '' ? null : Math.max(0, indent) + Number(deeper);
      return this.#blockText(style === '>', before || behind!, indent, own);
    }
    if (text.startsWith('[') || text.startsWith('{'))
      return new FlowReader(this.#joined(text, indent)).whole();
    if (text.startsWith('"') || text.startsWith("'")) return quoted(this.#joined(text, indent));
    const plain = this.#joined(withoutComment(text), indent);
    return plain === '~' || plain === 'null' ? null : plain;
  }

  #joined(first: string, indent: number): string {
    const parts = [first];
    for (let line = this.#peek(); line !== null && line.indent > indent; line = this.#peek()) {
      parts.push(withoutComment(line.text));
      this.#take();
    }
    return parts.join(' ');
  }

  /** `own` is how far the text is indented; null when its first line tells. */
  #blockText(folded: boolean, chomping: string, indent: number, own: number | null): string {
    const lines: string[] = [];
    for (; this.#at < this.#lines.length; this.#at++) {
      const line = this.#lines[this.#at]!;
      const depth = line.length - line.trimStart().length;
      if (line.trim() !== '') {
        own ??= depth;
        if (depth < own || depth <= indent) break;
      }
      lines.push(line.slice(own ?? depth));
    }
    const text = (folded ? lines.map((line) => line || '\n').join(' ') : lines.join('\n')).trimEnd();
    return chomping === '-' || text === '' ? text : `${text}\n`;
  }

  /** The next line that says something. */
  #peek(): Line | null {
    if (this.#rest !== null) return this.#rest;
    for (; this.#at < this.#lines.length; this.#at++) {
      const line = this.#lines[this.#at]!;
      const text = line.trim();
      if (text === '' || text.startsWith('#')) continue;
      if (/^ *\t/.test(line)) throw new YamlError('lines are indented by spaces');
      if (text === '---' && line.startsWith('---')) throw new YamlError('only one document is read');
      return { indent: line.length - line.trimStart().length, text };
    }
    return null;
  }

  #take(): void {
    if (this.#rest === null) this.#at++;
    else this.#rest = null;
  }
}

/** A collection in brackets or braces. */
class FlowReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** What goes on behind its closing bracket is a text that people forgot to quote, such as `[x] y`. */
  whole(): YamlValue {
    const value = this.#value(0);
    const rest = this.#text.slice(this.#at).trim();
    return rest === '' || rest.startsWith('#') ? value : withoutComment(this.#text);
  }

  #value(depth: number): YamlValue {
    if (depth > MAX_YAML_DEPTH) throw new YamlError('nested too deeply');
    this.#skipSpace();
    const opening = this.#text[this.#at];
    if (opening === '[') return this.#items(']', () => this.#value(depth + 1));
    if (opening === '{') return Object.fromEntries(this.#items('}', () => this.#member(depth + 1)));
    return this.#scalar(/[,\]}]/);
  }

  #member(depth: number): [string, YamlValue] {
    const key = this.#scalar(/[:,\]}]/);
    if (typeof key !== 'string') throw new YamlError('a key is missing');
    if (this.#text[this.#at] !== ':') return [key, null];
    this.#at++;
    return [key, this.#value(depth)];
  }

  #items<T>(closing: string, read: () => T): T[] {
    const items: T[] = [];
    this.#at++;
    for (;;) {
      this.#skipSpace();
      if (this.#text[this.#at] === closing) break;
      items.push(read());
      this.#skipSpace();
      if (this.#text[this.#at] === ',') this.#at++;
      else if (this.#text[this.#at] !== closing) throw new YamlError(`expected ${closing}`);
    }
    this.#at++;
    return items;
  }

  #scalar(end: RegExp): YamlValue {
    this.#skipSpace();
    const rest = this.#text.slice(this.#at);
    const length = /^["']/.test(rest) ? quotedLength(rest) : rest.search(end);
    if (length <= 0) throw new YamlError('a value is missing');
    this.#at += length;
    const text = rest.slice(0, length).trim();
    this.#skipSpace();
    if (/^["']/.test(text)) return quoted(text);
    return text === '~' || text === 'null' ? null : text;
  }

  #skipSpace(): void {
    while (this.#text[this.#at] === ' ') this.#at++;
  }
}

function isItem(text: string): boolean {
  return text === '-' || text.startsWith('- ');
}

/** The key that a line begins with, and what follows its colon. */
function keyOf(text: string): { readonly key: string; readonly value: string } | null {
  const length = /^["']/.test(text) ? quotedLength(text) : text.search(/:(?:[ \t]|$)/);
  if (length <= 0 || !/^ *:(?:[ \t]|$)/.test(text.slice(length))) return null;
  const key = text.slice(0, length);
  if (/^[[{#&*!|>%@`]/.test(key)) return null;
  const value = text.slice(text.indexOf(':', length) + 1).trim();
  return { key: /^["']/.test(key) ? quoted(key) : key.trim(), value };
}

function withoutComment(text: string): string {
  const at = text.search(/\s#/);
  return (at < 0 ? text : text.slice(0, at)).trimEnd();
}

/** How long the quoted text is that `text` begins with; 0 when it does not end. */
function quotedLength(text: string): number {
  const found = /^"(?:[^"\\]|\\.)*"|^'(?:[^']|'')*'/.exec(text);
  return found?.[0].length ?? 0;
}

function quoted(text: string): string {
  const length = quotedLength(text);
  const rest = text.slice(length).trim();
  if (length === 0 || (rest !== '' && !rest.startsWith('#'))) throw new YamlError(`not well quoted: ${text}`);
  const inner = text.slice(1, length - 1);
  if (text.startsWith("'")) return inner.replaceAll("''", "'");
  return inner.replace(/\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))/g, unescaped);
}

function unescaped(sequence: string, byte?: string, short?: string, long?: string, letter?: string): string {
  const hex = byte ?? short ?? long;
  if (hex === undefined) return ESCAPES[letter!] ?? refuseEscape(sequence);
  const code = Number.parseInt(hex, 16);
  // Half a surrogate pair is no character, and what holds one is no text to others.
  const isCharacter = code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
  return isCharacter ? String.fromCodePoint(code) : refuseEscape(sequence);
}

function refuseEscape(sequence: string): never {
  throw new YamlError(`unknown escape ${sequence}`);
}

const ESCAPES: Readonly<Record<string, string>> = {
  0: '\0',
  a: '\x07',
  b: '\b',
  t: '\t',
  n: '\n',
  v: '\v',
  f: '\f',
  r: '\r',
  e: '\x1b',
  ' ': ' ',
  '"': '"',
  '/': '/',
  '\\': '\\',
};
