import { onAbort } from '../base/abort.ts';
import type { ExecutorHttp, HttpRequestHeader, StreamingHttpResponse } from '../client/backend.ts';

/** The web's `fetch` for an environment. */
export type ExecutorFetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/**
 * Returns a `fetch` that sends requests from an executor. It buffers request bodies, streams response bodies, and an abort ends the
 * request at the executor. Unlike a browser it has no cookies, no cache and no decompression, and responses have no URL.
 * `extraHeaders` are added to every request.
 */
export function fetchOver(
  http: ExecutorHttp,
  extraHeaders: readonly HttpRequestHeader[] = [],
): ExecutorFetch {
  return async (input, init) => {
    const request = new Request(input, init);
    const { method, url, redirect } = request;
    const body = request.body === null ? null : new Uint8Array(await request.arrayBuffer());
    const own = Array.from(request.headers, ([name, value]) => ({ name, value }));
    try {
      const answer = await http.stream(
        {
          ...{ method, url, body },
          headers: [...own, ...extraHeaders],
          redirect: redirect === 'follow' ? 'follow' : 'stop',
        },
        { signal: request.signal },
      );
      return responseOf(answer, request);
    } catch (error) {
      // An abort rejects with its own reason.
      if (request.signal.aborted) throw request.signal.reason;
      throw new TypeError('fetch failed', { cause: error });
    }
  };
}

/** Statuses of responses without a body. */
const BODILESS: ReadonlySet<number> = new Set([101, 103, 204, 205, 304]);

function responseOf(answer: StreamingHttpResponse, request: Request): Response {
  const { status } = answer;
  try {
    const headers = new Headers(answer.headers.map(({ name, value }): [string, string] => [name, value]));
    if (request.redirect === 'error' && status >= 300 && status < 400 && headers.has('location')) {
      throw new Error('the server sent a redirect, and `redirect` is "error"');
    }
    if (!BODILESS.has(status)) return new Response(readable(answer, request), { status, headers });
    answer.cancel();
    return new Response(null, { status, headers });
  } catch (error) {
    answer.cancel();
    throw error;
  }
}

/**
 * Returns the body as a stream that pulls one piece per read, so that the reader's pace limits the executor. An abort ends it
 * immediately, also without a reader. It references the request: the signal of a garbage-collected request never aborts.
 */
function readable({ body, cancel }: StreamingHttpResponse, request: Request): ReadableStream<Uint8Array> {
  const pieces = body[Symbol.asyncIterator]();
  let stopListening = () => {};
  const end = () => {
    stopListening();
    cancel();
  };
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const { signal } = request;
        const abort = () => {
          controller.error(signal.reason);
          end();
        };
        if (signal.aborted) abort();
        else stopListening = onAbort(signal, abort);
      },
      async pull(controller) {
        const { done, value } = await pieces.next().catch((error: unknown) => {
          stopListening();
          throw error;
        });
        // The stream already has the error.
        if (request.signal.aborted) return;
        if (done) {
          stopListening();
          controller.close();
        } else {
          controller.enqueue(value);
        }
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}
