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
  readonly #carryLength: number;
  #found: string | null = null;

  /** Throws ToolFailure for an expression that is not valid. */
  constructor(pattern: string, isRegex: boolean) {
    if (pattern === '') throw new ToolFailure('The pattern is empty. Pass the text to wait for.');
    if (pattern.length > MAX_PATTERN_LENGTH)
      throw new ToolFailure(
        `The pattern is longer than ${MAX_PATTERN_LENGTH} characters. Pass a shorter one.`,
      );
    this.#find = isRegex ? regexFinder(pattern) : (text) => (text.includes(pattern) ? pattern : null);
    this.#carryLength = Math.max(MAX_LINE_LENGTH, pattern.length);
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
    const lineStart = text.lastIndexOf('\n') + 1;
    this.#carries.set(stream, text.slice(Math.max(lineStart, text.length - this.#carryLength)));
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

/** Longest pattern, and longest unfinished line that is matched again when more of it arrives. */
const MAX_PATTERN_LENGTH = 1_000;
const MAX_LINE_LENGTH = 4_096;

/** Time of all matches of one expression, and of one of them. */
const TOTAL_MATCH_MS = 250;
const ONE_MATCH_MS = 50;

/** Finds with a time limit: Node interrupts the execution of an expression as well as that of code. */
function regexFinder(pattern: string): (text: string) => string | null {
  const context: Context = createContext({ expression: expressionOf(pattern), text: '' });
  let usedMs = 0;
  return (text) => {
    context.text = text;
    const startedAt = performance.now();
    try {
      if (usedMs > TOTAL_MATCH_MS) throw tooSlow();
      return MATCH.runInContext(context, { timeout: ONE_MATCH_MS }) as string | null;
    } catch (error) {
      throw (error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT' ? tooSlow() : error;
    } finally {
      usedMs += performance.now() - startedAt;
    }
  };
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
