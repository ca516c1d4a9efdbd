import * as z from 'zod/mini';
// Not imported through `z.core`, because that would bundle all of it.
import { $constructor, $ZodAsyncError, util } from 'zod/v4/core';

/**
 * A record with names that a client chooses, including any name. Zod's records drop `__proto__`, which is a valid
 * variable name. Here it is a member like any other, and never a prototype.
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

/** A separate schema type, so that clones of it ({@link z.clone}) keep its behavior. */
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

/** Whether the value is the result of parsing JSON with such a key. */
function hasProto(value: unknown): value is { readonly [PROTO]: unknown } {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, PROTO);
}
