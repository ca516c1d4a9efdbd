import type { ExecutorHttp, HttpRequestHeader, HttpStream } from '../client/backend.ts';

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
    const { method, url, redirect, signal } = request;
    const body = request.body === null ? null : new Uint8Array(await request.arrayBuffer());
    const own = Array.from(request.headers, ([name, value]) => ({ name, value }));
    try {
      const answer = await http.stream(
        {
          ...{ method, url, body },
          headers: [...own, ...extraHeaders],
          redirect: redirect === 'follow' ? 'follow' : 'stop',
        },
        { signal },
      );
      return responseOf(answer, redirect === 'error', signal);
    } catch (error) {
      // Who aborts gets his own reason back.
      if (signal.aborted) throw signal.reason;
      throw new TypeError('fetch failed', { cause: error });
    }
  };
}

/** Statuses whose answers have no body. */
const BODILESS: ReadonlySet<number> = new Set([101, 103, 204, 205, 304]);

function responseOf(answer: HttpStream, refuseRedirects: boolean, signal: AbortSignal): Response {
  const { status } = answer;
  const headers = new Headers(answer.headers.map(({ name, value }): [string, string] => [name, value]));
  try {
    if (refuseRedirects && status >= 300 && status < 400 && headers.has('location')) {
      throw new Error('the server redirects, and redirects are refused');
    }
    if (!BODILESS.has(status)) return new Response(readable(answer, signal), { status, headers });
    answer.cancel();
    return new Response(null, { status, headers });
  } catch (error) {
    answer.cancel();
    throw error;
  }
}

/** Pulls a piece only when the reader wants one, so that the executor reads no faster than that. */
function readable({ body, cancel }: HttpStream, signal: AbortSignal): ReadableStream<Uint8Array> {
  const pieces = body[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await pieces.next().catch((error: unknown) => {
          throw signal.aborted ? signal.reason : error;
        });
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel,
    },
    { highWaterMark: 0 },
  );
}
