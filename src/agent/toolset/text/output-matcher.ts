import { TextDecoder } from 'node:util';
import { type Context, createContext, Script } from 'node:vm';
import { ToolFailure } from '../failure.ts';
import { plainText } from './plain-text.ts';

/**
 * Finds a text or a regular expression in output that arrives in pieces. Lines are matched without escape sequences, the last one also
 * before its end. A regular expression has a limit of time: one that backtracks too much is refused instead of blocking the event loop.
 */
export class OutputMatcher {
  readonly #decoders = new Map<string, TextDecoder>();
  readonly #carries = new Map<string, string>();
  readonly #find: (text: string) => string | null;
  /** Lines that a text can span. */
  readonly #lines: number;
  #found: string | null = null;

  /** Throws ToolFailure for an expression that is not valid. */
  constructor(pattern: string, isRegex: boolean) {
    if (pattern === '') throw new ToolFailure('The pattern is empty. Pass the text to wait for.');
    if (pattern.length > MAX_PATTERN_LENGTH)
      throw new ToolFailure(
        `The pattern is longer than ${MAX_PATTERN_LENGTH} characters. Pass a shorter one.`,
      );
    this.#find = isRegex ? regexFinder(pattern) : (text) => (text.includes(pattern) ? pattern : null);
    this.#lines = isRegex ? 1 : pattern.split('\n').length;
  }

  /** What was found; null as long as nothing was. */
  get found(): string | null {
    return this.#found;
  }

  /** Takes output of a stream. Returns whether the pattern has been found. Throws ToolFailure when the expression is too slow. */
  push(stream: string, bytes: Uint8Array): boolean {
    if (this.#found !== null) return true;
    const text = (this.#carries.get(stream) ?? '') + this.#decoderOf(stream).decode(bytes, { stream: true });
    this.#found = this.#find(plainText(text));
    const start = startOfLastLines(text, this.#lines);
    this.#carries.set(stream, text.slice(Math.max(start, text.length - MAX_CARRY_LENGTH)));
    return this.#found !== null;
  }

  #decoderOf(stream: string): TextDecoder {
    let decoder = this.#decoders.get(stream);
    if (decoder === undefined) {
      decoder = new TextDecoder();
      this.#decoders.set(stream, decoder);
    }
    return decoder;
  }
}

/** Where the last lines begin, of which the last may be unfinished. */
function startOfLastLines(text: string, lines: number): number {
  let start = text.length + 1;
  for (let count = 0; count < lines; count++) {
    const end = start > 1 ? text.lastIndexOf('\n', start - 2) : -1;
    if (end === -1) return 0;
    start = end + 1;
  }
  return start;
}

/** Longest pattern, and most of an unfinished line that is matched again when more of it arrives. */
const MAX_PATTERN_LENGTH = 1_000;
const MAX_CARRY_LENGTH = 4_096;

/** Time limits of one match: a busy machine can cause the first ones to be exceeded, an expression that backtracks exceeds them all. */
const MATCH_LIMITS_MS = [50, 100, 200];

/** Time of all matches: a constant, and a share of the time since the first one. */
const FREE_MATCH_MS = 500;
const MATCH_SHARE = 0.25;

/** Finds with a time limit: Node interrupts the execution of an expression as well as that of code. */
function regexFinder(pattern: string): (text: string) => string | null {
  const context: Context = createContext({ expression: expressionOf(pattern), text: '' });
  const beganAt = performance.now();
  let usedMs = 0;
  return (text) => {
    const startedAt = performance.now();
    if (usedMs > FREE_MATCH_MS + MATCH_SHARE * (startedAt - beganAt)) throw tooSlow();
    context.text = text;
    try {
      return matchWithin(context);
    } finally {
      usedMs += performance.now() - startedAt;
    }
  };
}

function matchWithin(context: Context): string | null {
  for (const timeout of MATCH_LIMITS_MS) {
    try {
      return MATCH.runInContext(context, { timeout }) as string | null;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    }
  }
  throw tooSlow();
}

const MATCH = new Script('(expression.exec(text) ?? [null])[0]');

function expressionOf(pattern: string): RegExp {
  try {
    return new RegExp(pattern, 'mu');
  } catch {
    try {
      return new RegExp(pattern, 'm');
    } catch (error) {
      throw new ToolFailure(`The pattern is not a regular expression: ${(error as Error).message}.`);
    }
  }
}

function tooSlow(): ToolFailure {
  return new ToolFailure(
    'The regular expression takes too long to match. Use a simpler one without nested repetitions, or a plain text. The program keeps running.',
  );
}
