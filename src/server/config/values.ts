import { escapeUnprintable } from '../../base/unprintable.ts';
import type { ConfigOption } from './config.ts';

/** A configured value after parsing. */
export type ConfigValue = string | number | boolean;

/** Describes why a value is invalid, as the end of a sentence that begins with the value. */
export class ConfigValueError extends Error {
  override readonly name = 'ConfigValueError';
}

/**
 * Parses the value of `option` from a flag, a variable, a TOML file or a program, as text or as a native value.
 * Throws ConfigValueError when the value has the wrong form or is out of bounds.
 */
export function parseConfigValue(option: ConfigOption, raw: unknown): ConfigValue {
  if ((raw === 'none' || raw === Number.POSITIVE_INFINITY) && acceptsNone(option)) {
    return Number.POSITIVE_INFINITY;
  }
  switch (option.type) {
    case 'string':
      if (typeof raw !== 'string') throw new ConfigValueError('is not a string');
      return raw;
    case 'boolean':
      return parseBoolean(raw);
    case 'enum':
      if (!option.values.some((value) => value === raw))
        throw new ConfigValueError('is not one of the choices');
      return raw as string;
    case 'integer':
      return withinBounds(option, parseQuantity(raw, {}, 'is not a whole number'));
    case 'duration':
      return withinBounds(option, parseQuantity(raw, MILLISECONDS_PER_UNIT, 'is not a duration'));
    case 'bytes':
      return withinBounds(option, parseQuantity(raw, BYTES_PER_UNIT, 'is not a size'));
  }
}

/** Describes which values `option` takes, for help and error messages. */
export function describeAllowed(option: ConfigOption): string {
  switch (option.type) {
    case 'string':
      return option.allowed;
    case 'boolean':
      return 'true or false';
    case 'enum':
      return option.values.join(', ');
    case 'integer':
      return `a whole number from ${range(option)}`;
    case 'duration':
      return `milliseconds, or a number with ms, s, m or h, from ${range(option)}${acceptsNone(option) ? '; or none' : ''}`;
    case 'bytes':
      return `bytes, or a number with KiB, MiB or GiB, from ${range(option)}`;
  }
}

/** Formats a value in its short form (`30s`, `64KiB`), which parses back to the same value. */
export function formatConfigValue(option: ConfigOption, value: ConfigValue): string {
  if (value === Number.POSITIVE_INFINITY) return 'none';
  if (option.type === 'duration') return formatQuantity(value as number, MILLISECONDS_PER_UNIT);
  if (option.type === 'bytes') return formatQuantity(value as number, BYTES_PER_UNIT);
  return String(value);
}

/** Whether `none` is a value of the option. */
export function acceptsNone(option: ConfigOption): boolean {
  return 'none' in option && option.none;
}

/** Shows a value and its kind in a one-line message: text in quotes, with control characters escaped and its end cut if it is long. */
export function quoteValue(raw: unknown): string {
  if (raw === null || raw === undefined) return String(raw);
  if (typeof raw === 'object') return Array.isArray(raw) ? 'an array' : 'an object';
  if (typeof raw !== 'string')
    return NAMED_KINDS.includes(typeof raw) ? `the ${typeof raw} ${raw}` : `a ${typeof raw}`;
  const cut = raw.length > MAX_QUOTED_CHARS ? `${raw.slice(0, MAX_QUOTED_CHARS)}…` : raw;
  return `'${escapeUnprintable(cut)}'`;
}

/** Largest unit first, so that formatting finds the shortest form. */
const MILLISECONDS_PER_UNIT: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };
const BYTES_PER_UNIT: Readonly<Record<string, number>> = { GiB: 1024 ** 3, MiB: 1024 ** 2, KiB: 1024 };
const MAX_QUOTED_CHARS = 80;
/** Kinds of values that have a short text without quotes. */
const NAMED_KINDS = ['number', 'boolean', 'bigint'];

function parseBoolean(raw: unknown): boolean {
  if (raw === true || raw === 'true' || raw === '1') return true;
  if (raw === false || raw === 'false' || raw === '0') return false;
  throw new ConfigValueError('is not true or false');
}

function parseQuantity(raw: unknown, units: Readonly<Record<string, number>>, problem: string): number {
  if (typeof raw === 'number') {
    if (Number.isInteger(raw)) return raw;
    throw new ConfigValueError('is not a whole number');
  }
  const [, digits, unit] = (typeof raw === 'string' && /^(-?\d+)([a-z]*)$/i.exec(raw)) || [];
  const factor = unit === '' ? 1 : Object.hasOwn(units, unit ?? '') ? units[unit!] : undefined;
  if (digits === undefined || factor === undefined) throw new ConfigValueError(problem);
  return Number(digits) * factor;
}

function withinBounds(option: ConfigOption & { min: number; max: number }, value: number): number {
  if (value < option.min) throw new ConfigValueError(`is below ${formatConfigValue(option, option.min)}`);
  if (value > option.max) throw new ConfigValueError(`is above ${formatConfigValue(option, option.max)}`);
  return value;
}

function range(option: ConfigOption & { min: number; max: number }): string {
  return `${formatConfigValue(option, option.min)} to ${formatConfigValue(option, option.max)}`;
}

function formatQuantity(value: number, units: Readonly<Record<string, number>>): string {
  if (value === 0) return '0';
  for (const [unit, factor] of Object.entries(units)) {
    if (value % factor === 0) return `${value / factor}${unit}`;
  }
  return String(value);
}
