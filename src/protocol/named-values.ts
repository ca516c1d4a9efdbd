import * as z from 'zod/mini';
// Not by way of `z.core`: whoever names that gets all of it.
import { $constructor, $ZodAsyncError, util } from 'zod/v4/core';

/**
 * Values by names that a client chooses, any name at all. The library's own records leave out `__proto__`, which is a good name of a
 * variable; here it is a member like every other, and never the prototype of anything.
 */
export function namedValues<Value extends z.ZodMiniType>(
  value: Value,
): z.ZodMiniRecord<z.ZodMiniString, Value> {
  return new NamedValues({ type: 'record', keyType: z.string(), valueType: value }) as z.ZodMiniRecord<
    z.ZodMiniString,
    Value
  >;
}

const PROTO = '__proto__';
const LibraryRecord: $constructor<z.ZodMiniRecord> = z.ZodMiniRecord;

/** A type of schema of its own: copies of one, as {@link z.clone} makes them, keep what it does. */
const NamedValues = $constructor<z.ZodMiniRecord>('NamedValues', (schema, definition) => {
  LibraryRecord.init(schema, definition);
  const parseOthers = schema._zod.parse;
  schema._zod.parse = (payload, context) => {
    const given = payload.value;
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

/** Whether it is what JSON with such a key is parsed to. */
function hasProto(value: unknown): value is { readonly [PROTO]: unknown } {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, PROTO);
}
