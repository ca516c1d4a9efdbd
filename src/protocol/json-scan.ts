import {
  LINEAR_KEY_SEARCH_MAX,
  MAX_KEY_LENGTH,
  MAX_REQUEST_FRACTIONS,
  MAX_REQUEST_KEYS,
  type MessageLimits,
} from './limits.ts';

/** A message that cannot be decoded. `message` gives the reason without quoting the input. */
export class MalformedMessageError extends Error {
  override readonly name = 'MalformedMessageError';
  /** The id of the request as written. Null when it is not known, or the message is not a request. */
  readonly rawId: string | null;

  constructor(message: string, rawId: string | null = null) {
    super(message);
    this.rawId = rawId;
  }
}

/** The findings of a scan that JSON.parse would lose. */
interface JsonScan {
  /**
   * The text to parse. With `integers`, every number that is not a 64-bit integer is rewritten with a visible
   * fraction.
   */
  readonly text: string;
  /** The root object's `id` exactly as written, if it is a number or a string. */
  readonly rawId: string | null;
}

/**
 * Enforces limits that JSON.parse does not: depth, number of values, unique keys (also when written with escapes),
 * their length, and paired surrogates. It does so before anything is allocated for the message. It reads the text
 * once and checks nothing else: text that is not JSON passes here and fails in JSON.parse.
 *
 * Requests may contain only 64-bit integers. JSON.parse cannot distinguish `1.0` from `1`, or 2^64 from the number
 * below it. So with `integers` every other number is replaced by `0.5`, which no integer schema accepts. With
 * `any`, numbers are unchanged.
 */
export function scanJson(text: string, limits: MessageLimits, numbers: Numbers = 'integers'): JsonScan {
  return new Scanner(text, limits, numbers).scan();
}

/** Returns the id of a request, as written, from the first part of its text. Null when it has no id there. */
export function scanRequestId(head: string): string | null {
  const limits = { maxMessageBytes: head.length, maxJsonDepth: head.length, maxJsonValues: head.length };
  const scanner = new Scanner(head, limits, 'any');
  try {
    scanner.scan();
  } catch (error) {
    if (!(error instanceof MalformedMessageError)) throw error;
  }
  return scanner.requestId;
}

/** The numbers that a message may contain. */
export type Numbers = 'integers' | 'any';

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const LOWER_U = 0x75;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** The keys of an open object, or null for an array. */
type Frame = KeySet | null;

class Scanner {
  readonly #text: string;
  readonly #limits: MessageLimits;
  readonly #numbers: Numbers;
  readonly #frames: Frame[] = [];
  readonly #fractions: { start: number; end: number }[] = [];
  readonly #maxKeys: number;
  #values = 0;
  #keys = 0;
  #nextBackslash = -1;
  #expectKey = false;
  #idPending = false;
  #rawId: string | null = null;
  #hasMethod = false;
  /**
   * The limit that was exceeded, among those that the reference does not have. The rest is scanned for the id, so that the
   * client learns which of its requests was refused.
   */
  #refusal: string | null = null;

  constructor(text: string, limits: MessageLimits, numbers: Numbers) {
    this.#text = text;
    this.#limits = limits;
    this.#numbers = numbers;
    this.#maxKeys = Math.min(limits.maxJsonValues, numbers === 'integers' ? MAX_REQUEST_KEYS : Infinity);
  }

  scan(): JsonScan {
    const text = this.#text;
    const length = text.length;
    let at = 0;
    while (at < length) {
      const code = text.charCodeAt(at);
      if (code === QUOTE) {
        at = this.#string(at);
      } else if (code === OPEN_BRACE || code === OPEN_BRACKET) {
        this.#open(code === OPEN_BRACE);
        at++;
      } else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
        this.#frames.pop();
        this.#expectKey = false;
        at++;
      } else if (code === COMMA) {
        this.#expectKey = this.#frames.at(-1) != null;
        at++;
      } else if (code === COLON) {
        this.#expectKey = false;
        at++;
      } else if (code <= 0x20) {
        at++;
      } else {
        at = this.#scalar(at);
      }
    }
    if (this.#refusal !== null) throw new MalformedMessageError(this.#refusal, this.requestId);
    return { text: this.#withVisibleFractions(), rawId: this.#rawId };
  }

  /** The id found so far, if the message is a request. */
  get requestId(): string | null {
    return this.#hasMethod ? this.#rawId : null;
  }

  #open(isObject: boolean): void {
    this.#countValue();
    this.#idPending = false;
    if (this.#frames.length === this.#limits.maxJsonDepth) {
      throw new MalformedMessageError(`nested deeper than ${this.#limits.maxJsonDepth} levels`);
    }
    this.#frames.push(isObject ? new KeySet() : null);
    this.#expectKey = isObject;
  }

  #countValue(): void {
    const { maxJsonValues } = this.#limits;
    if (++this.#values > maxJsonValues && this.#refusal === null)
      throw new MalformedMessageError(`more than ${maxJsonValues} JSON values`);
  }

  /** Skips the string that starts at `start`. Returns the position after it. */
  #string(start: number): number {
    const end = this.#endOfString(start);
    if (this.#expectKey) {
      this.#key(start, end);
    } else {
      this.#countValue();
      if (this.#idPending) this.#rawId = this.#text.slice(start, end);
      this.#idPending = false;
    }
    return end;
  }

  #endOfString(start: number): number {
    const text = this.#text;
    const closing = text.indexOf('"', start + 1);
    const end = closing < 0 ? text.length : closing + 1;
    const backslash = this.#backslashFrom(start + 1);
    return backslash < end ? this.#endOfEscapedString(backslash) : end;
  }

  /**
   * Returns the position of the next backslash at or after `at`. It is cached, so that a text without escapes is
   * searched once instead of once per string.
   */
  #backslashFrom(at: number): number {
    if (this.#nextBackslash < at) {
      const found = this.#text.indexOf('\\', at);
      this.#nextBackslash = found < 0 ? Number.POSITIVE_INFINITY : found;
    }
    return this.#nextBackslash;
  }

  #endOfEscapedString(firstEscape: number): number {
    const text = this.#text;
    let at = firstEscape;
    while (at < text.length) {
      const code = text.charCodeAt(at);
      if (code === QUOTE) return at + 1;
      if (code !== BACKSLASH) at++;
      else if (text.charCodeAt(at + 1) !== LOWER_U) at += 2;
      else at = this.#endOfUnicodeEscape(at);
    }
    return text.length;
  }

  /** A high surrogate must be followed by an escaped low one, and a low one must not stand alone. */
  #endOfUnicodeEscape(at: number): number {
    const unit = hexUnit(this.#text, at + 2);
    if (unit >= 0xd800 && unit <= 0xdbff) {
      const paired = this.#text.charCodeAt(at + 6) === BACKSLASH && this.#text.charCodeAt(at + 7) === LOWER_U;
      const low = paired ? hexUnit(this.#text, at + 8) : 0;
      if (low >= 0xdc00 && low <= 0xdfff) return at + 12;
    } else if (!(unit >= 0xdc00 && unit <= 0xdfff)) {
      return at + 6;
    }
    throw new MalformedMessageError('a lone surrogate in a string');
  }

  /**
   * Keys are not counted, because each has a value. In text that is not JSON a key may lack one, so it is counted
   * here.
   */
  #key(start: number, end: number): void {
    if (++this.#keys > this.#maxKeys) this.#refusal ??= `more than ${this.#maxKeys} keys`;
    // Duplicates no longer matter then, and looking for them is what the limit prevents.
    if (this.#refusal !== null && this.#frames.length > 1) return;
    if (end - start > MAX_KEY_LENGTH) throw new MalformedMessageError(`a key longer than ${MAX_KEY_LENGTH}`);
    const raw = this.#text.slice(start + 1, end - 1);
    const key = raw.includes('\\') ? unescapeKey(raw) : raw;
    const keys = this.#frames.at(-1);
    if (keys?.add(key) === false) throw new MalformedMessageError('a duplicate key in an object');
    this.#idPending = this.#frames.length === 1 && key === 'id';
    this.#hasMethod ||= this.#frames.length === 1 && key === 'method';
  }

  /** Skips a number, a literal or garbage. */
  #scalar(start: number): number {
    const text = this.#text;
    const first = text.charCodeAt(start);
    const isNumber = first === MINUS || (first >= 0x30 && first <= 0x39);
    let fractional = false;
    let at = start + 1;
    for (; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET || code <= 0x20 || code === QUOTE)
        break;
      if (code === COLON || code === OPEN_BRACE || code === OPEN_BRACKET) break;
      if (code === 0x2e || code === 0x65 || code === 0x45) fractional = true;
    }
    this.#countValue();
    if (isNumber && (fractional || at - start >= MAX_UINT64.length)) this.#checkNumber(start, at);
    if (isNumber && this.#idPending) this.#rawId = text.slice(start, at);
    this.#idPending = false;
    return at;
  }

  /** Records a number that is not a 64-bit integer. JSON.parse refuses tokens that are no numbers. */
  #checkNumber(start: number, end: number): void {
    if (this.#numbers === 'any') return;
    const token = this.#text.slice(start, end);
    if (!JSON_NUMBER.test(token) || isIntegerOf64Bits(token)) return;
    if (this.#fractions.length < MAX_REQUEST_FRACTIONS) this.#fractions.push({ start, end });
    else this.#refusal ??= `more than ${MAX_REQUEST_FRACTIONS} numbers that are not 64-bit integers`;
  }

  #withVisibleFractions(): string {
    if (this.#fractions.length === 0) return this.#text;
    const parts: string[] = [];
    let from = 0;
    for (const { start, end } of this.#fractions) {
      parts.push(this.#text.slice(from, start), '0.5');
      from = end;
    }
    parts.push(this.#text.slice(from));
    return parts.join('');
  }
}

/** The keys of one object: an array while it is small, then a set. */
class KeySet {
  readonly #few: string[] = [];
  #many: Set<string> | null = null;

  /** Returns false when the key is already present. */
  add(key: string): boolean {
    if (this.#many !== null) {
      if (this.#many.has(key)) return false;
      this.#many.add(key);
      return true;
    }
    if (this.#few.includes(key)) return false;
    this.#few.push(key);
    if (this.#few.length > LINEAR_KEY_SEARCH_MAX) this.#many = new Set(this.#few);
    return true;
  }
}

/** The value of four hexadecimal digits; 0 for other characters, which JSON.parse refuses. */
function hexUnit(text: string, at: number): number {
  let unit = 0;
  for (let index = at; index < at + 4; index++) {
    const digit = HEX_DIGITS[text.charCodeAt(index)];
    if (digit === undefined) return 0;
    unit = unit * 16 + digit;
  }
  return unit;
}

function unescapeKey(raw: string): string {
  try {
    return JSON.parse(`"${raw}"`) as string;
  } catch {
    throw new MalformedMessageError('not valid JSON: a bad escape in a key');
  }
}

/** Digits by character code. */
const HEX_DIGITS: readonly (number | undefined)[] = Array.from({ length: 128 }, (_, code) => {
  const digit = Number.parseInt(String.fromCharCode(code), 16);
  return Number.isNaN(digit) ? undefined : digit;
});

const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const MAX_UINT64 = '18446744073709551615';
const MAX_NEGATIVE_INT64 = '9223372036854775808';

/**
 * Whether the token is an integer between -2^63 and 2^64 - 1. Digits without leading zeros compare like their
 * numbers.
 */
function isIntegerOf64Bits(token: string): boolean {
  const negative = token.startsWith('-');
  const digits = negative ? token.slice(1) : token;
  if (!/^\d+$/.test(digits)) return false;
  const limit = negative ? MAX_NEGATIVE_INT64 : MAX_UINT64;
  return digits.length < limit.length || (digits.length === limit.length && digits <= limit);
}
