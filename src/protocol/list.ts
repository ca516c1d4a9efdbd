import * as z from 'zod/mini';
// Not imported through `z.core`, because that would bundle all of it.
import { $constructor, $ZodAsyncError, util } from 'zod/v4/core';
import { MAX_LIST_LENGTH } from './limits.ts';

/**
 * A list of limited length. Its length is checked before its elements, and the check ends at the first wrong element: Zod's arrays
 * report each one, which takes a second for a large list.
 */
export function list<Element extends z.ZodMiniType>(
  element: Element,
  maxLength = MAX_LIST_LENGTH,
): z.ZodMiniArray<Element> {
  const definition: Definition = { type: 'array', element, maxLength, checks: [z.maxLength(maxLength)] };
  return new List(definition) as z.ZodMiniArray<Element>;
}

interface Definition extends z.core.$ZodArrayDef {
  readonly maxLength: number;
}

const LibraryArray: $constructor<z.ZodMiniArray> = z.ZodMiniArray;

/** A separate schema type, so that clones of it ({@link z.clone}) keep its behavior. */
const List = $constructor<z.ZodMiniArray>('List', (schema, definition) => {
  LibraryArray.init(schema, definition);
  const parseOther = schema._zod.parse;
  schema._zod.parse = (payload, context) => {
    const given: unknown = payload.value;
    if (!Array.isArray(given) || given.length > (definition as Definition).maxLength) {
      return parseOther(payload, context);
    }
    const parsed: unknown[] = [];
    for (const value of given) {
      const element = definition.element._zod.run({ value, issues: [] }, context);
      if (element instanceof Promise) throw new $ZodAsyncError();
      if (element.issues.length > 0) {
        payload.issues.push(...util.prefixIssues(parsed.length, element.issues));
        return payload;
      }
      parsed.push(element.value);
    }
    payload.value = parsed;
    return payload;
  };
});
