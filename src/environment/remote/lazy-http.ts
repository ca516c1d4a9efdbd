import { onAbort } from '../../base/abort.ts';
import type {
  CallOptions,
  ExecutorHttp,
  HttpRequest,
  HttpResponse,
  StreamingHttpResponse,
} from '../../client/backend.ts';
import { CallLimit } from '../../client/connection/call-limit.ts';
import type { LazyConnection, Lease } from './lazy-connection.ts';

/** Sends HTTP requests through a connection that the first request opens. A streamed body keeps the connection in use. */
export class LazyHttp implements ExecutorHttp {
  readonly #connection: LazyConnection;

  constructor(connection: LazyConnection) {
    this.#connection = connection;
  }

  async request(request: HttpRequest, options?: CallOptions): Promise<HttpResponse> {
    const lease = await this.#connection.lease(options);
    try {
      return await lease.connection.http.request(request, lease.options);
    } finally {
      lease.release();
    }
  }

  async stream(request: HttpRequest, options?: CallOptions): Promise<StreamingHttpResponse> {
    const lease = await this.#connection.lease(options);
    try {
      return held(await lease.connection.http.stream(request, lease.options), lease);
    } catch (error) {
      lease.release();
      throw error;
    }
  }
}

/** Releases the lease at the end of the body, and on an abort or timeout even without a read. */
function held(
  { status, headers, body, cancel }: StreamingHttpResponse,
  { release, options }: Lease,
): StreamingHttpResponse {
  const limit = new CallLimit('the request', options);
  const { signal } = limit;
  let stopListening = () => {};
  const end = () => {
    stopListening();
    limit.end();
    release();
  };
  if (signal?.aborted) end();
  else if (signal !== undefined) stopListening = onAbort(signal, end);
  const pieces = async function* () {
    try {
      yield* body;
    } finally {
      end();
    }
  };
  return {
    status,
    headers,
    body: pieces(),
    cancel: () => {
      cancel();
      end();
    },
  };
}
