import { suggestionFor } from '../../base/suggestion.ts';
import { ClientError, type ClientErrorKind } from '../errors.ts';

// Types do not stop a caller in JavaScript, or one whose options come from elsewhere. A wrong name or value is an error of the client, so
// that it is neither ignored nor a TypeError from inside the client. Options of `connect` have the kind `config`, others `invalidInput`.

/** The names of all options of a call. With the type of its options, the compiler finds a missing or a wrong name. */
export type OptionNames<Options> = Readonly<Record<KeyOfEach<Options>, true>>;
type KeyOfEach<Options> = Options extends unknown ? keyof Options : never;

/** Names of `CallOptions`, which every call has. */
export const CALL_OPTIONS = { signal: true, timeoutMs: true } as const;

/** Checks that options, if given, are an object with known names. A name whose value is undefined is not given. */
export function expectOptions(
  call: string,
  options: unknown,
  names: Readonly<Record<string, true>>,
  kind: ClientErrorKind = 'invalidInput',
): void {
  if (options === undefined) return;
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw wrong(`the options of ${call} are`, options, 'an object', undefined, kind);
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined && !Object.hasOwn(names, name)) throw unknownOption(call, name, names, kind);
  }
}

/** Checks that an option, if given, is true or false. */
export function checkBoolean(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'boolean')
    throw wrong(`\`${name}\` is`, value, 'true or false');
}

/** Checks that an option, if given, is a text. */
export function checkText(name: string, value: unknown, kind: ClientErrorKind = 'invalidInput'): void {
  if (value !== undefined && typeof value !== 'string')
    throw wrong(`\`${name}\` is`, value, 'a text', undefined, kind);
}

/** Checks that an option, if given, is a function. */
export function checkFunction(name: string, value: unknown): void {
  if (value !== undefined) expectFunction(name, value);
}

/** Checks that an option, if given, is one of some texts. */
export function checkOneOf(name: string, value: unknown, choices: readonly string[]): void {
  if (value === undefined || choices.includes(value as string)) return;
  const shown = choices.map((choice) => `'${choice}'`).join(' or ');
  const text = typeof value === 'string' ? `'${value}'` : kindOf(value);
  throw new ClientError('invalidInput', `\`${name}\` is ${text}, not ${shown}`, {
    hint: typeof value === 'string' ? (suggestionFor(value, choices) ?? undefined) : undefined,
  });
}

/** Checks that an option, if given, is a whole number from 1 to `max`. */
export function checkCount(name: string, value: unknown, max = Number.MAX_SAFE_INTEGER): void {
  if (
    value === undefined ||
    (Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= max)
  )
    return;
  throw wrong(
    `\`${name}\` is`,
    value,
    'a whole number',
    `write a number from 1${max < 2 ** 32 ? ` to ${max}` : ''}`,
  );
}

/** Checks that an option, if given, is an AbortSignal. Not `instanceof`: it may come from another realm. */
export function checkSignal(value: unknown, kind: ClientErrorKind = 'invalidInput'): void {
  if (value === undefined) return;
  const { aborted, addEventListener } = (value ?? {}) as Partial<AbortSignal>;
  if (typeof aborted === 'boolean' && typeof addEventListener === 'function') return;
  throw wrong('`signal` is', value, 'an AbortSignal', 'pass the `signal` of an AbortController', kind);
}

/** Checks that a value is text. */
export function expectText(name: string, value: unknown, hint?: string): void {
  if (typeof value !== 'string' || value === '') throw wrong(`\`${name}\` is`, value, 'a text', hint);
}

/** Checks that a value is a function. */
export function expectFunction(name: string, value: unknown): void {
  if (typeof value !== 'function') throw wrong(`\`${name}\` is`, value, 'a function');
}

/** Checks that a value is text or bytes. */
export function expectContent(name: string, value: unknown): void {
  // Not `instanceof`: the bytes may come from another realm, such as a frame or a test runner.
  if (typeof value === 'string' || ArrayBuffer.isView(value)) return;
  throw wrong(
    `\`${name}\` is`,
    value,
    'text or a Uint8Array',
    'convert other values first, with String() for example',
  );
}

/** Checks that a value is a TCP port. */
export function expectPort(name: string, value: unknown, min: 0 | 1): void {
  if (Number.isInteger(value) && (value as number) >= min && (value as number) <= 65_535) return;
  throw wrong(`\`${name}\` is`, value, 'a TCP port', `write a number from ${min} to 65535`);
}

/** Checks that an option, if given, is a number of milliseconds. */
export function checkDuration(
  name: string,
  value: unknown,
  { max = Number.POSITIVE_INFINITY, kind = 'invalidInput' as ClientErrorKind } = {},
): void {
  if (value === undefined || (typeof value === 'number' && value >= 0 && value <= max)) return;
  const range = max === Number.POSITIVE_INFINITY ? 'from 0' : `from 0 to ${max}`;
  throw wrong(`\`${name}\` is`, value, 'a number of milliseconds', `write a number ${range}`, kind);
}

/** Checks that an option, if given, is a number of bytes. */
export function checkBytes(
  name: string,
  value: unknown,
  { min = 0, kind = 'invalidInput' as ClientErrorKind } = {},
): void {
  if (value === undefined || (Number.isSafeInteger(value) && (value as number) >= min)) return;
  throw wrong(`\`${name}\` is`, value, 'a number of bytes', `write a whole number from ${min}`, kind);
}

/** Checks that an option, if given, is a sequence number or 0. */
export function checkSeq(name: string, value: unknown): void {
  if (value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0)) return;
  throw wrong(`\`${name}\` is`, value, 'a sequence number', 'write a whole number from 0');
}

/** Returns an option of `connect` in milliseconds, and `none` for no limit. Throws ClientError when it is neither. */
export function durationOrNone(name: string, value: unknown, none: number): number | undefined {
  if (value === 'none' || value === Number.POSITIVE_INFINITY) return none;
  if (value === undefined || (typeof value === 'number' && value >= 0)) return value;
  throw wrong(
    `\`${name}\` is`,
    value,
    'a number of milliseconds',
    "write a number from 0, or 'none'",
    'config',
  );
}

/** The error for a value of a wrong kind, `` `url` is `` for example. It does not show a text, which may be a secret. */
export function wrong(
  valueIs: string,
  value: unknown,
  expected: string,
  hint?: string,
  kind: ClientErrorKind = 'invalidInput',
): ClientError {
  const shown = typeof value === 'number' ? String(value) : kindOf(value);
  return new ClientError(kind, `${valueIs} ${shown}, not ${expected}`, { hint });
}

function unknownOption(
  call: string,
  name: string,
  names: Readonly<Record<string, true>>,
  kind: ClientErrorKind,
): ClientError {
  const known = Object.keys(names);
  const other = OTHER_NAMES.get(name);
  const hint =
    (other !== undefined && known.includes(other) ? `did you mean '${other}'?` : null) ??
    suggestionFor(name, known) ??
    `its options are ${known.sort().join(', ')}`;
  return new ClientError(kind, `${call} has no option \`${name}\``, { hint });
}

/** Names that other libraries have for an option. */
const OTHER_NAMES: ReadonlyMap<string, string> = new Map([
  ['token', 'authToken'],
  ['stdin', 'input'],
  ['timeout', 'timeoutMs'],
  ['timeoutMs', 'connectTimeoutMs'],
  ['columns', 'cols'],
]);

/** Describes a value without showing it. */
export function kindOf(value: unknown): string {
  if (value === undefined) return 'missing';
  if (value === null) return 'null';
  if (value === '') return 'an empty string';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}
