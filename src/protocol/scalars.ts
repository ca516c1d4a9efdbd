import * as z from 'zod/mini';
// Not imported through `z.core`, because that would bundle all of it.
import { $ZodCheckMaxLength, $ZodCheckMinLength } from 'zod/v4/core';
import { isCanonicalBase64 } from '../base/base64.ts';
import { once } from '../base/once.ts';
import {
  MAX_ARGUMENT_LENGTH,
  MAX_EXPRESSION_LENGTH,
  MAX_IDENTIFIER_LENGTH,
  MAX_NAME_LENGTH,
  MAX_PATTERN_LENGTH,
  MAX_URI_LENGTH,
  MAX_URL_LENGTH,
} from './limits.ts';

/**
 * Returns a copy of the schema with a description for the generated documentation. The original schema is
 * unchanged.
 */
export function doc<Schema extends z.ZodMiniType>(schema: Schema, description: string): Schema {
  const described = z.clone(schema);
  z.globalRegistry.add(described, { description });
  return described;
}

// Schemas are built with `once`, on first use: building all of them takes longer than everything else before a
// server's first response, which needs only one.

// The kinds of strings in requests. A request has no string without a limit, except for base64 data.

/** An id that a client chooses and the server keeps. */
export const Identifier = once(() => text(MAX_IDENTIFIER_LENGTH));
/** A short name. */
export const Name = once(() => text(MAX_NAME_LENGTH));
/** A `file:` URI or a path. */
export const Uri = once(() => text(MAX_URI_LENGTH));
/** The URL of a web server. */
export const Url = once(() => text(MAX_URL_LENGTH));
/** A glob or a host pattern. */
export const Pattern = once(() => text(MAX_PATTERN_LENGTH));
/** A regular expression. */
export const Expression = once(() => text(MAX_EXPRESSION_LENGTH));
/** An argument or the value of an environment variable or header. */
export const Argument = once(() => text(MAX_ARGUMENT_LENGTH));

/**
 * A string of limited length. The library's own check of a length also runs for objects with a member `length`, whose conversion to a
 * number may throw.
 */
export function text(maxLength: number) {
  return z
    .string()
    .check(new $ZodCheckMaxLength({ check: 'max_length', maximum: maxLength, when: isString }));
}

/** Refuses the empty string, with this message. */
export function notEmpty(message: string) {
  return new $ZodCheckMinLength({
    check: 'min_length',
    minimum: 1,
    error: () => message,
    when: isString,
  });
}

function isString({ value }: z.core.ParsePayload): boolean {
  return typeof value === 'string';
}

/**
 * An unsigned 64-bit integer. Values above 2^53 lose their low bits, which matters for no field of the protocol.
 */
export const Uint64 = once(() =>
  z.number().check(
    z.refine((value) => Number.isInteger(value) && value >= 0 && value <= 2 ** 64, {
      error: 'expected an unsigned integer',
    }),
  ),
);

/** A limit. */
export const PositiveInteger = once(() =>
  z.number().check(
    z.refine((value) => Number.isSafeInteger(value) && value >= 1, {
      error: 'expected a positive integer',
    }),
  ),
);

/** A terminal dimension. */
export const Uint16Positive = once(() =>
  z.number().check(
    z.refine((value) => Number.isInteger(value) && value >= 1 && value <= 65_535, {
      error: 'expected an integer from 1 to 65535',
    }),
  ),
);

/** Bytes in standard base64, padded and canonical. Anything else is refused. */
export const Base64 = once(() =>
  z.string().check(z.refine(isCanonicalBase64, { error: 'expected standard base64 with padding' })),
);

/**
 * Base64 of possibly several megabytes. It is validated where it is decoded, at no extra cost. Its length has no limit
 * of its own: the message has one.
 */
export const Base64Text = once(() => z.string());

/** An optional value of the protocol: absent, null or present. */
export function optional<Schema extends z.ZodMiniType>(schema: Schema) {
  return z.nullish(schema);
}

/** No parameters: absent, null or an empty object. */
export const NoParams = once(() =>
  z.pipe(
    z.custom<unknown>(
      (value) =>
        value === undefined ||
        value === null ||
        (typeof value === 'object' && !Array.isArray(value) && Object.keys(value).length === 0),
      { error: 'this method takes no parameters' },
    ),
    z.transform(() => ({})),
  ),
);
