import { isObject } from '../../base/is-object.ts';
import { RunError } from '../failures.ts';

const BY_HAND = 'add the server by hand; the command without --write prints what to add';

/** Parses a JSON object that is written back later. Throws RunError for one that would lose something by that. */
export function parsePlainJson(file: string, text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new RunError(`${file} is not plain JSON (${(error as Error).message}); ${BY_HAND}`);
  }
  if (!isObject(value)) throw new RunError(`${file} does not contain a JSON object; ${BY_HAND}`);
  const keys = text.match(/"(?:[^"\\]|\\.)*"(?=\s*:)/g)?.length ?? 0;
  if (keys !== countKeys(value)) throw new RunError(`${file} has a key twice; ${BY_HAND}`);
  const number = text.replace(STRINGS, '""').match(NUMBERS)?.find(isInexact);
  if (number !== undefined) {
    throw new RunError(`${file} has the number ${number.slice(0, 40)}, which would be rounded; ${BY_HAND}`);
  }
  return value;
}

const STRINGS = /"(?:[^"\\]|\\.)*"/g;
const NUMBERS = /-?\d[\d.eE+-]*/g;

/** Digits that every number of JavaScript keeps. */
const EXACT_DIGITS = 15;

function isInexact(number: string): boolean {
  const value = Number(number);
  const digits = number.replace(/e.*$/i, '').replace(/\D/g, '').replace(/^0+/, '').length;
  if (digits > 0 && (value === 0 || !Number.isFinite(value))) return true;
  return digits > EXACT_DIGITS && String(value) !== number;
}

function countKeys(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const own = Array.isArray(value) ? 0 : Object.keys(value).length;
  return Object.values(value).reduce((sum: number, inner) => sum + countKeys(inner), own);
}
