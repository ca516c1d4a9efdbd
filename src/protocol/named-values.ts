import * as z from 'zod/mini';
// Not imported through `z.core`, because that would bundle all of it.
import { $constructor, $ZodAsyncError, util } from 'zod/v4/core';
import { MAX_KEY_LENGTH, MAX_NAMED_VALUES } from './limits.ts';

/**
 * A record of limited size with names that a client chooses, including any name. Zod's records drop `__proto__`, which is
 * a valid variable name. Here it is a member like any other, and never a prototype.
 */
export function namedValues<Value extends z.ZodMiniType>(
  value: Value,
): z.ZodMiniRecord<z.ZodMiniString, Value> {
  const keyType = z.string().check(z.maxLength(MAX_KEY_LENGTH));
  return new NamedValues({ type: 'record', keyType, valueType: value }) as z.ZodMiniRecord<
    z.ZodMiniString,
    Value
  >;
}

const PROTO = '__proto__';
const LibraryRecord: $constructor<z.ZodMiniRecord> = z.ZodMiniRecord;

/** A separate schema type, so that clones of it ({@link z.clone}) keep its behavior. */
const NamedValues = $constructor<z.ZodMiniRecord>('NamedValues', (schema, definition) => {
  LibraryRecord.init(schema, definition);
  const parseOthers = schema._zod.parse;
  schema._zod.parse = (payload, context) => {
    const given = payload.value;
    if (sizeOf(given) > MAX_NAMED_VALUES) {
      payload.issues.push({ ...TOO_MANY, input: given, inst: schema });
      return payload;
    }
    const parsed = parseOthers(payload, context);
    if (!hasProto(given) || parsed instanceof Promise || parsed.issues.length > 0) return parsed;
    const member = definition.valueType._zod.run({ value: given[PROTO], issues: [] }, context);
    if (member instanceof Promise) throw new $ZodAsyncError();
    parsed.issues.push(...util.prefixIssues(PROTO, member.issues));
    const descriptor = { value: member.value, enumerable: true, configurable: true, writable: true };
    Object.defineProperty(parsed.value, PROTO, descriptor);
    return parsed;
  };
});

const TOO_MANY = { code: 'too_big', origin: 'record', maximum: MAX_NAMED_VALUES, inclusive: true } as const;

function sizeOf(value: unknown): number {
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 0;
}

/** Whether the value is the result of parsing JSON with such a key. */
function hasProto(value: unknown): value is { readonly [PROTO]: unknown } {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, PROTO);
}
