import { ClientError } from '../errors.ts';

/** Checks that an option, if given, is a number of milliseconds. Throws ClientError of kind `config`. */
export function checkDuration(name: string, value: unknown, { max = Number.POSITIVE_INFINITY } = {}): void {
  if (value === undefined || (typeof value === 'number' && value >= 0 && value <= max)) return;
  const range = max === Number.POSITIVE_INFINITY ? 'from 0' : `from 0 to ${max}`;
  throw badOption(name, value, 'a number of milliseconds', `write a number ${range}`);
}

/** Checks that an option, if given, is a number of bytes. Throws ClientError of kind `config`. */
export function checkBytes(name: string, value: unknown, { min = 0 } = {}): void {
  if (value === undefined || (Number.isSafeInteger(value) && (value as number) >= min)) return;
  throw badOption(name, value, 'a number of bytes', `write a whole number from ${min}`);
}

/** Checks that an option, if given, is a sequence number or 0. Throws ClientError of kind `config`. */
export function checkSeq(name: string, value: unknown): void {
  if (value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0)) return;
  throw badOption(name, value, 'a sequence number', 'write a whole number from 0');
}

/** Returns an option in milliseconds, and `none` for no limit. Throws ClientError of kind `config` when it is neither. */
export function durationOrNone(name: string, value: unknown, none: number): number | undefined {
  if (value === 'none' || value === Number.POSITIVE_INFINITY) return none;
  if (value === undefined || (typeof value === 'number' && value >= 0)) return value;
  throw badOption(name, value, 'a number of milliseconds', "write a number from 0, or 'none'");
}

function badOption(name: string, value: unknown, expected: string, hint: string): ClientError {
  const shown = typeof value === 'number' ? String(value) : kindOf(value);
  return new ClientError('config', `\`${name}\` is ${shown}, not ${expected}`, { hint });
}

/** Describes a value without showing it. */
export function kindOf(value: unknown): string {
  if (value === undefined) return 'missing';
  if (value === null) return 'null';
  if (value === '') return 'an empty string';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}
