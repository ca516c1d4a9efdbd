import { HIDDEN, type SecretRange, secretRanges } from '../observability/redact.ts';
import { MASK_CONTEXT_CHARS, MASK_MAX_CONTEXT_CHARS, MASK_WINDOW_CHARS } from './limits.ts';

/** A piece of text on its way through a {@link SecretMask}. */
export interface MaskedText {
  /** What is decided. The reader takes it. */
  ready: string;
  /** Characters that are not decided yet. */
  waiting: number;
}

/**
 * Masks the secrets in a stream of text, also those that are split over pieces. A line is decided when it ends. A long line is decided
 * except for its last characters. What was decided before still counts: the rest of a secret is masked too.
 */
export class SecretMask {
  readonly #waiting: MaskedText[] = [];
  /** Text before {@link #pending} that was decided. */
  #context = '';
  #pending = '';
  /** Whether the context ends within a secret that is masked. */
  #endsMasked = false;

  /** Adds text. The piece is updated until all of it is decided. */
  add(text: string): MaskedText {
    const piece = { ready: '', waiting: text.length };
    this.#waiting.push(piece);
    const lineEnd = Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r')) + 1;
    // What waits has no line end.
    const lines = lineEnd === 0 ? 0 : this.#pending.length + lineEnd;
    this.#pending += text;
    this.#decide(this.#pending.length - lines > 2 * MASK_WINDOW_CHARS ? windowStart(this.#pending) : lines);
    return piece;
  }

  /** Decides about everything that waits. */
  flush(): void {
    this.#decide(this.#pending.length);
  }

  #decide(length: number): void {
    if (length === 0) return;
    const text = this.#context + this.#pending;
    const from = this.#context.length;
    const to = from + length;
    const parts = secretParts(text).filter(({ start, end }) => start < to && end > from);
    const markAt = ({ start, secretStart }: SecretPart) => {
      if (start >= from) return start === secretStart ? start : NOWHERE;
      return this.#endsMasked ? NOWHERE : from;
    };
    let next = 0;
    for (let at = from; at < to; ) {
      const piece = this.#waiting[0]!;
      const end = Math.min(at + piece.waiting, to);
      while (next < parts.length && parts[next]!.end <= at) next++;
      piece.ready += masked(text, at, end, parts, next, markAt);
      piece.waiting -= end - at;
      if (piece.waiting === 0) this.#waiting.shift();
      at = end;
    }
    this.#keepContext(text, to, parts.at(-1));
  }

  #keepContext(text: string, to: number, last: SecretPart | undefined): void {
    this.#endsMasked = last !== undefined && last.end >= to;
    const lineEnded = isLineEnd(text.charCodeAt(to - 1));
    const start = to - (lineEnded ? MASK_CONTEXT_CHARS : MASK_WINDOW_CHARS);
    // The name before a secret belongs to it.
    const startOfSecret = this.#endsMasked ? last!.secretStart - MASK_CONTEXT_CHARS : to;
    const first = Math.max(0, Math.min(start, startOfSecret), to - MASK_MAX_CONTEXT_CHARS);
    this.#context = text.slice(first, to);
    this.#pending = text.slice(to);
  }
}

/** A part of a secret, between control sequences. */
interface SecretPart extends SecretRange {
  readonly secretStart: number;
}

/** The asterisks were written before. */
const NOWHERE = -1;

/** Masks a section of a text. `markAt` says where the asterisks of a part are written. */
function masked(
  text: string,
  from: number,
  to: number,
  parts: readonly SecretPart[],
  first: number,
  markAt: (part: SecretPart) => number,
): string {
  let shown = '';
  let at = from;
  for (let index = first; index < parts.length && parts[index]!.start < to; index++) {
    const part = parts[index]!;
    if (part.start > at) shown += text.slice(at, part.start);
    const mark = markAt(part);
    if (mark >= from && mark < to) shown += HIDDEN;
    at = Math.min(part.end, to);
  }
  return at < to ? shown + text.slice(at, to) : shown;
}

/**
 * Finds the secrets in a text as a terminal shows it. Colours and other sequences between the characters do not count. They are no part of a
 * secret, because a colour that changes within it also holds after it. Titles, links and other control strings have secrets of their own.
 */
function secretParts(text: string): SecretPart[] {
  if (!INTRODUCER.test(text)) return wholeParts(text, 0);
  const parts: SecretPart[] = [];
  const runs: { readonly from: number; readonly to: number; readonly inPlain: number }[] = [];
  let plain = '';
  let from = 0;
  const keep = (to: number) => {
    if (to > from) runs.push({ from, to, inPlain: plain.length });
    plain += text.slice(from, to);
  };
  for (const { index, 0: sequence, 1: start = '', 2: content = '' } of text.matchAll(SEQUENCES)) {
    keep(index);
    parts.push(...wholeParts(content, index + start.length));
    from = index + sequence.length;
  }
  keep(text.length);
  let next = 0;
  for (const { start, end } of secretRanges(plain)) {
    while (runs[next]!.inPlain + runs[next]!.to - runs[next]!.from <= start) next++;
    const secretStart = runs[next]!.from + start - runs[next]!.inPlain;
    for (let index = next; index < runs.length && runs[index]!.inPlain < end; index++) {
      const run = runs[index]!;
      const offset = run.from - run.inPlain;
      const part = {
        start: Math.max(run.from, start + offset),
        end: Math.min(run.to, end + offset),
        secretStart,
      };
      parts.push(part);
    }
  }
  return parts.sort((a, b) => a.start - b.start);
}

/** The secrets of a text without sequences, at its place in a longer one. */
function wholeParts(text: string, at: number): SecretPart[] {
  return secretRanges(text).map(({ start, end }) => ({
    start: at + start,
    end: at + end,
    secretStart: at + start,
  }));
}

/** What begins a sequence: the escape character, or its form as one control character. */
const INTRODUCER = /[\x1b\x90\x98\x9b\x9d-\x9f]/;

/**
 * Control strings (their beginning, their content), control sequences and other escapes. What follows the beginning of a control string
 * that does not end is text.
 */
const SEQUENCES =
  /(\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])([^\x07\x1b\x90\x98\x9b-\x9f]*)(?:\x07|\x1b\\|\x9c)|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]|[\x90\x98\x9c-\x9f]/g;

/** How much of a long line can be decided without its rest. */
function windowStart(text: string): number {
  const cut = text.length - MASK_WINDOW_CHARS;
  // Not between the halves of a surrogate pair.
  return /[\ud800-\udbff]/.test(text[cut - 1]!) ? cut - 1 : cut;
}

function isLineEnd(code: number): boolean {
  return code === 10 || code === 13;
}
