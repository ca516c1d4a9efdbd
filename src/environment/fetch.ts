import { onAbort } from '../base/abort.ts';
import type { ExecutorHttp, HttpRequestHeader, StreamingHttpResponse } from '../client/backend.ts';

/** `fetch` as the web knows it, for an environment. */
export type ExecutorFetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/**
 * `fetch` over the requests of an executor. Request bodies are gathered before they are sent, answers come as they arrive, and aborting
 * ends the request at the executor. What differs from a browser: no cookies, no cache, nothing is decompressed, and the answer does not
 * know its URL. `extraHeaders` are added to every request.
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
      // Who aborts gets his own reason back.
      if (request.signal.aborted) throw request.signal.reason;
      throw new TypeError('fetch failed', { cause: error });
    }
  };
}

/** Statuses whose answers have no body. */
const BODILESS: ReadonlySet<number> = new Set([101, 103, 204, 205, 304]);

function responseOf(answer: StreamingHttpResponse, request: Request): Response {
  const { status } = answer;
  try {
    const headers = new Headers(answer.headers.map(({ name, value }): [string, string] => [name, value]));
    if (request.redirect === 'error' && status >= 300 && status < 400 && headers.has('location')) {
      throw new Error('the server redirects, and redirects are refused');
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
 * Pulls a piece only when the reader wants one, so that the executor reads no faster than that. Aborting ends it at once, whether
 * somebody reads or not. It holds the request: a signal of one that was collected as garbage never aborts.
 */
function readable({ body, cancel }: StreamingHttpResponse, request: Request): ReadableStream<Uint8Array> {
  const pieces = body[Symbol.asyncIterator]();
  let letGo = () => {};
  const end = () => {
    letGo();
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
        else letGo = onAbort(signal, abort);
      },
      async pull(controller) {
        const { done, value } = await pieces.next().catch((error: unknown) => {
          letGo();
          throw error;
        });
        // The reader has been told.
        if (request.signal.aborted) return;
        if (done) {
          letGo();
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
