import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { list } from './list.ts';
import { Argument, Base64, Base64Text, doc, Identifier, Name, optional, Uint64, Url } from './scalars.ts';

const RequestId = once(() =>
  doc(Identifier(), 'Chosen by the client. Unique among the streamed responses of its connection.'),
);

const RequestHeader = once(() =>
  z.object({
    name: doc(Name(), 'Sent in lower case.'),
    value: Argument(),
    valueEnvVar: doc(
      optional(Name()),
      'An environment variable of the server whose value is appended to `value`. It must exist and not be empty. Variables with credentials of the server itself are refused, and for a token with limits all that the server does not list.',
    ),
  }),
);

const ResponseHeader = once(() => z.object({ name: doc(z.string(), 'In lower case.'), value: z.string() }));

export const HttpRequestParams = once(() =>
  z.object({
    requestId: RequestId(),
    method: doc(Name(), 'Sent unchanged.'),
    url: doc(Url(), 'An `http:` or `https:` URL.'),
    headers: doc(z._default(list(RequestHeader()), []), 'Sent in this order, with equal names grouped.'),
    bodyBase64: doc(optional(Base64Text()), 'Null, absent and empty all mean no body.'),
    timeoutMs: doc(
      optional(Uint64()),
      'Time from the start to the end of the body. No limit when null or absent.',
    ),
    redirectPolicy: doc(
      z._default(z.enum(['follow', 'stop']), 'follow'),
      '`follow` follows up to ten redirects. `stop` returns the redirect response itself.',
    ),
    streamResponse: doc(
      z._default(z.boolean(), false),
      'The result has status and headers only. The body follows as `http/request/bodyDelta`.',
    ),
    windowBytes: doc(
      optional(Uint64()),
      'With `streamResponse`: bytes of the body that may be in flight before `http/consumed` reports them as used. One chunk may exceed it.',
    ),
  }),
);

export const HttpRequestResult = once(() =>
  z.object({
    status: z.int(),
    headers: doc(
      z.array(ResponseHeader()),
      'In order of arrival, with equal names grouped. Values that are not ASCII are left out.',
    ),
    bodyBase64: doc(Base64(), 'The body as received, not decompressed. Empty when the body is streamed.'),
  }),
);

export const HttpBodyDeltaParams = once(() =>
  z.object({
    requestId: RequestId(),
    seq: doc(Uint64(), 'From 1, without gaps.'),
    deltaBase64: doc(Base64(), 'At most 1 MiB of the body. Empty in the last notification.'),
    done: doc(z.boolean(), 'True in the last notification. The id may then be reused.'),
    error: doc(z.nullable(z.string()), 'In the last notification: why the body is incomplete.'),
  }),
);

export const HttpCancelParams = once(() => z.object({ requestId: RequestId() }));
export const HttpCancelResult = once(() =>
  z.object({ cancelled: doc(z.boolean(), 'Whether such a request was in progress.') }),
);

export const HttpConsumedParams = once(() =>
  z.object({ requestId: RequestId(), bytes: doc(Uint64(), 'Bytes used since the last report.') }),
);
export const HttpConsumedResult = once(() => z.object({}));
