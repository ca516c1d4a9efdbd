import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { Base64, Base64Text, doc, Identifier, optional, Uint64 } from './scalars.ts';

const RequestId = once(() =>
  doc(Identifier(), 'Chosen by the client; unique among the streamed answers of its connection.'),
);

const RequestHeader = once(() =>
  z.object({
    name: doc(z.string(), 'Sent in lower case.'),
    value: z.string(),
    valueEnvVar: doc(
      optional(z.string()),
      'A variable of the server whose value is put behind `value`; it must exist and not be empty. Variables that hold the credentials of the server itself are refused.',
    ),
  }),
);

const AnswerHeader = once(() => z.object({ name: doc(z.string(), 'In lower case.'), value: z.string() }));

export const HttpRequestParams = once(() =>
  z.object({
    requestId: RequestId(),
    method: doc(z.string(), 'Sent as it is.'),
    url: doc(z.string(), 'An `http:` or `https:` URL.'),
    headers: doc(z._default(z.array(RequestHeader()), []), 'Sent in this order, same names side by side.'),
    bodyBase64: doc(optional(Base64Text()), 'Null, absent and empty are the same: no body.'),
    timeoutMs: doc(optional(Uint64()), 'From the start to the end of the body; null or absent is no limit.'),
    redirectPolicy: doc(
      z._default(z.enum(['follow', 'stop']), 'follow'),
      '`follow` goes through up to ten redirects, `stop` returns the first.',
    ),
    streamResponse: doc(
      z._default(z.boolean(), false),
      'The answer has status and headers only; the body follows as `http/request/bodyDelta`.',
    ),
    windowBytes: doc(
      optional(Uint64()),
      'With `streamResponse`: bytes of the body, and one piece more, that may be under way before `http/consumed` tells that they were used.',
    ),
  }),
);

export const HttpRequestResult = once(() =>
  z.object({
    status: z.int(),
    headers: doc(
      z.array(AnswerHeader()),
      'In order of arrival, same names side by side; values that are not ASCII are left out.',
    ),
    bodyBase64: doc(
      Base64(),
      'As it was received: nothing is decompressed. Empty when the body is streamed.',
    ),
  }),
);

export const HttpBodyDeltaParams = once(() =>
  z.object({
    requestId: RequestId(),
    seq: doc(Uint64(), 'From 1, without gaps.'),
    deltaBase64: doc(Base64(), 'At most 1 MiB of the body; empty in the last one.'),
    done: doc(z.boolean(), 'The last one; the id is free again.'),
    error: doc(z.nullable(z.string()), 'In the last one: why the body is not complete.'),
  }),
);

export const HttpCancelParams = once(() => z.object({ requestId: RequestId() }));
export const HttpCancelResult = once(() =>
  z.object({ cancelled: doc(z.boolean(), 'Whether there was such a request under way.') }),
);

export const HttpConsumedParams = once(() =>
  z.object({ requestId: RequestId(), bytes: doc(Uint64(), 'Used since the last report.') }),
);
export const HttpConsumedResult = once(() => z.object({}));
