import { onAbort } from '../../base/abort.ts';
import type { CallParamsOf, Method, ResultOf } from '../../protocol/registry.ts';
import type {
  CallOptions,
  ExecutorHttp,
  HttpHeader,
  HttpRequest,
  HttpResponse,
  StreamingHttpResponse,
} from '../backend.ts';
import { bytesParam, receivedBytes } from '../connection/bytes.ts';
import { CallLimit } from '../connection/call-limit.ts';
import { ConsumptionReports } from '../connection/consumption.ts';
import { expectContent, expectOptions, expectText, type OptionNames } from '../connection/option-checks.ts';
import { type Capabilities, protocolError } from '../connection/server-messages.ts';
import { ClientError } from '../errors.ts';
import { bytesOf } from '../files/file-content.ts';
import { BODY_WINDOW_BYTES } from '../limits.ts';
import type { HttpBodies, HttpBody } from './http-bodies.ts';

/** The part of a client that HTTP requests need. */
export interface HttpRequestClient {
  readonly capabilities: Capabilities;
  /** Whether a base64 parameter may be a Uint8Array. Default: false. */
  readonly takesBytes?: boolean;
  call<M extends Method>(method: M, params: CallParamsOf<M>, options?: CallOptions): Promise<ResultOf<M>>;
  /** Like `call`. The large base64 member of a result may be a Uint8Array. */
  readonly callForBytes?: HttpRequestClient['call'];
}

/** Sends HTTP requests through a server. Cancels abandoned requests there, if the server supports it. */
export class RemoteHttp implements ExecutorHttp {
  readonly #client: HttpRequestClient;
  readonly #bodies: HttpBodies;

  constructor(client: HttpRequestClient, bodies: HttpBodies) {
    this.#client = client;
    this.#bodies = bodies;
  }

  async request(request: HttpRequest, options: CallOptions = {}): Promise<HttpResponse> {
    expectRequest('http.request', request);
    const requestId = this.#bodies.newId();
    const { status, headers, body } = await this.#send(this.#paramsOf(requestId, request, options), options);
    return { status, headers, body };
  }

  async stream(request: HttpRequest, options: CallOptions = {}): Promise<StreamingHttpResponse> {
    expectRequest('http.stream', request);
    const requestId = this.#bodies.newId();
    const body = this.#bodies.open(requestId);
    const limit = new CallLimit('the request', options);
    const { signal } = limit;
    try {
      const params = this.#paramsOf(requestId, request, options);
      const { status, headers } = await this.#send({ ...params, ...this.#streaming() }, { signal });
      return { status, headers, ...this.#reading(requestId, body, limit) };
    } catch (error) {
      body.drop();
      limit.end();
      throw signal?.aborted ? signal.reason : error;
    }
  }

  #streaming(): Partial<CallParamsOf<'http/request'>> {
    const { httpFlowControl } = this.#client.capabilities;
    return { streamResponse: true, ...(httpFlowControl && { windowBytes: BODY_WINDOW_BYTES }) };
  }

  #paramsOf(
    requestId: string,
    { url, method = 'GET', headers = [], body, redirect = 'follow' }: HttpRequest,
    { timeoutMs }: CallOptions,
  ): CallParamsOf<'http/request'> {
    return {
      requestId,
      method,
      url,
      headers: [...headers],
      bodyBase64: body == null ? null : bytesParam(bytesOf(body), this.#client),
      timeoutMs: timeoutMs === undefined ? null : Math.max(0, Math.ceil(timeoutMs)),
      redirectPolicy: redirect,
      streamResponse: false,
    };
  }

  async #send(params: CallParamsOf<'http/request'>, options: CallOptions): Promise<HttpResponse> {
    try {
      const call = this.#client.callForBytes ?? this.#client.call;
      return readResponse(await call.call(this.#client, 'http/request', params, options));
    } catch (error) {
      const givenUp = error instanceof ClientError && (error.kind === 'aborted' || error.kind === 'timeout');
      if (givenUp) this.#cancel(params.requestId);
      throw error;
    }
  }

  #reading(
    requestId: string,
    body: HttpBody,
    limit: CallLimit,
  ): Pick<StreamingHttpResponse, 'body' | 'cancel'> {
    let open = true;
    const giveUp = (error: ClientError | null) => {
      if (open && !body.over) this.#cancel(requestId);
      open = false;
      body.drop(error);
      unsubscribe();
      limit.end();
    };
    const { signal } = limit;
    const abort = () => {
      const reason: ClientError = signal!.reason;
      // A body that arrived completely within the timeout may be read later.
      if (reason.kind !== 'timeout' || !body.over) giveUp(reason);
    };
    const unsubscribe = signal === undefined || signal.aborted ? () => {} : onAbort(signal, abort);
    if (signal?.aborted) abort();
    const cancel = () => giveUp(null);
    const consumed = this.#client.capabilities.httpFlowControl
      ? (bytes: number) => this.#report(requestId, bytes)
      : () => {};
    return { body: chunks(body, consumed, cancel), cancel };
  }

  /** Does not wait for the answer. A server without the method continues, and its chunks are dropped. */
  #cancel(requestId: string): void {
    if (!this.#client.capabilities.httpCancel) return;
    this.#client.call('http/cancel', { requestId }).catch(() => {});
  }

  /** A lost report does no harm: the body is lost with the same connection. */
  #report(requestId: string, bytes: number): void {
    this.#client.call('http/consumed', { requestId, bytes }).catch(() => {});
  }
}

/** Yields the chunks and reports progress. */
async function* chunks(
  body: HttpBody,
  consumed: (bytes: number) => void,
  cancel: () => void,
): AsyncGenerator<Uint8Array> {
  const reports = new ConsumptionReports(BODY_WINDOW_BYTES, consumed);
  try {
    for (let chunk = await body.next(); chunk !== null; chunk = await body.next()) {
      yield chunk;
      if (!body.over) reports.consumed(chunk.length);
    }
  } finally {
    cancel();
  }
}

function expectRequest(call: string, request: HttpRequest): void {
  expectOptions(call, request, REQUEST_OPTIONS);
  expectText('url', request?.url, 'pass the whole URL, with http:// or https://');
  if (request.body != null) expectContent('body', request.body);
}

const REQUEST_OPTIONS: OptionNames<HttpRequest> = {
  url: true,
  method: true,
  headers: true,
  body: true,
  redirect: true,
};

/** Validated by hand, like every message that the client reads. */
function readResponse(result: unknown): HttpResponse {
  const { status, headers, bodyBase64 } = (result ?? {}) as Record<string, unknown>;
  const body = receivedBytes(bodyBase64);
  if (!Number.isSafeInteger(status) || !Array.isArray(headers) || !headers.every(isHeader) || body === null) {
    throw protocolError('malformed result of `http/request`');
  }
  return { status: status as number, headers, body };
}

function isHeader(header: unknown): header is HttpHeader {
  const { name, value } = (header ?? {}) as Record<string, unknown>;
  return typeof name === 'string' && typeof value === 'string';
}
