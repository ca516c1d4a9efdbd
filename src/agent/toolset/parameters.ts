import { isObject } from '../../base/is-object.ts';
import { suggestionFor } from '../../base/suggestion.ts';
import { ToolFailure } from './failure.ts';
import type { JsonSchemaObject, JsonSchemaProperty } from './types.ts';

/** The parameters of a tool by name. */
export type Parameters = Readonly<Record<string, JsonSchemaProperty>>;

type ValueOf<P extends JsonSchemaProperty> = P['type'] extends 'string'
  ? string
  : P['type'] extends 'integer'
    ? number
    : boolean;

/** The arguments of a call: `R` are required. */
export type ArgumentsOf<P extends Parameters, R extends keyof P> = {
  readonly [K in R]: ValueOf<P[K]>;
} & { readonly [K in Exclude<keyof P, R>]?: ValueOf<P[K]> };

export function text(description: string) {
  return { type: 'string', description } as const;
}

export function choice(description: string, values: readonly string[]) {
  return { type: 'string', description, enum: values } as const;
}

export function flag(description: string) {
  return { type: 'boolean', description } as const;
}

export function integer(
  description: string,
  bounds: { readonly minimum?: number; readonly maximum?: number } = {},
) {
  return { type: 'integer', description, ...bounds } as const;
}

export function schemaOf(properties: Parameters, required: readonly string[]): JsonSchemaObject {
  return { type: 'object', properties, required, additionalProperties: false };
}

/**
 * Checks the arguments of a model: an object, or its JSON text. Null equals absent, and numbers and booleans may be texts, because models
 * write them so. Throws ToolFailure.
 */
export function parseArguments(
  { properties, required }: JsonSchemaObject,
  args: unknown,
): Readonly<Record<string, string | number | boolean>> {
  const given = typeof args === 'string' ? parseJson(args) : (args ?? {});
  if (!isObject(given)) throw new ToolFailure(`The arguments must be an object, not ${kindOf(given)}.`);
  const parsed: Record<string, string | number | boolean> = {};
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined) continue;
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (property === undefined) throw unknownArgument(name, Object.keys(properties));
    parsed[name] = checked(name, property, value);
  }
  const missing = required.filter((name) => !Object.hasOwn(parsed, name));
  if (missing.length > 0) throw new ToolFailure(`The argument ${quoted(missing)} is missing.`);
  return parsed;
}

function parseJson(json: string): unknown {
  if (json.trim() === '') return {};
  try {
    return JSON.parse(json);
  } catch (error) {
    throw new ToolFailure(`The arguments are not JSON: ${(error as Error).message}.`);
  }
}

function unknownArgument(name: string, known: readonly string[]): ToolFailure {
  const suggestion = suggestionFor(name, known);
  const advice = suggestion?.replace(/^d/, 'D') ?? `The arguments are ${known.join(', ') || 'none'}.`;
  return new ToolFailure(`There is no argument ${JSON.stringify(name.slice(0, 100))}. ${advice}`);
}

function checked(name: string, property: JsonSchemaProperty, given: unknown): string | number | boolean {
  const value = fromText(name, property, given);
  const { type, enum: values, minimum, maximum } = property;
  const wrong = (expected: string) =>
    new ToolFailure(`The argument "${name}" must be ${expected}, not ${shown(given)}.`);
  if (type === 'boolean') {
    if (typeof value !== 'boolean') throw wrong('true or false');
    return value;
  }
  if (type === 'integer') {
    if (!Number.isSafeInteger(value)) throw wrong('a whole number');
    if (minimum !== undefined && (value as number) < minimum) throw wrong(`at least ${minimum}`);
    if (maximum !== undefined && (value as number) > maximum) throw wrong(`at most ${maximum}`);
    return value as number;
  }
  if (typeof value !== 'string') throw wrong('a string');
  if (values !== undefined && !values.includes(value)) throw wrong(`one of ${quoted(values)}`);
  return value;
}

/** The value that a text stands for. A cursor may be given as the number that it looks like. */
function fromText(name: string, { type }: JsonSchemaProperty, value: unknown): unknown {
  if (type === 'string') return name === 'cursor' && Number.isSafeInteger(value) ? String(value) : value;
  if (typeof value !== 'string') return value;
  if (type === 'integer') return /^-?\d{1,15}$/.test(value) ? Number(value) : value;
  return value === 'true' ? true : value === 'false' ? false : value;
}

function shown(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return typeof value === 'string' ? JSON.stringify(value.slice(0, 60)) : kindOf(value);
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return 'an array';
  return value === null ? 'null' : typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

function quoted(names: readonly string[]): string {
  return names.map((name) => JSON.stringify(name)).join(', ');
}
