import type {
  CallOptions,
  ExecutorHttp,
  HttpRequest,
  HttpResponse,
  StreamingHttpResponse,
} from '../client/backend.ts';
import { CallLimit } from '../client/call-limit.ts';
import { ClientError } from '../client/errors.ts';
import { bytesOf } from '../client/files/file-content.ts';
import { RpcErrorCode } from '../client/files/file-errors.ts';
import { ANY_HOST } from '../network/http/host-policy.ts';
import { HttpClient, type HttpResponse as LocalAnswer } from '../network/http/http-client.ts';
import { MAX_LOCAL_BODY_BYTES } from './limits.ts';
import { asServerError, closedError } from './local-errors.ts';

/** Asks web servers from this machine, with the rules of a server. */
export class LocalHttp implements ExecutorHttp {
  readonly #client = new HttpClient({ env: process.env, policy: ANY_HOST });
  #disposed = false;

  async request(request: HttpRequest, options: CallOptions = {}): Promise<HttpResponse> {
    const { status, headers, body } = await this.stream(request, options);
    const pieces: Uint8Array[] = [];
    let size = 0;
    for await (const piece of body) {
      pieces.push(piece);
      size += piece.length;
      if (size > MAX_LOCAL_BODY_BYTES) throw tooLarge();
    }
    return { status, headers, body: Buffer.concat(pieces, size) };
  }

  async stream(request: HttpRequest, options: CallOptions = {}): Promise<StreamingHttpResponse> {
    if (this.#disposed) throw closedError();
    const limit = new CallLimit('the request', options);
    const signal = limit.signal ?? new AbortController().signal;
    try {
      signal.throwIfAborted();
      return this.#streamOf(await this.#client.send(localRequest(request), signal), limit);
    } catch (error) {
      limit.end();
      throw this.#failureOf(error, limit);
    }
  }

  dispose(): void {
    this.#disposed = true;
    this.#client.close();
  }

  #streamOf({ status, fields, body, cancel }: LocalAnswer, limit: CallLimit): StreamingHttpResponse {
    let cancelled = false;
    const failureOf = (error: unknown) => this.#failureOf(error, limit);
    const pieces = async function* () {
      try {
        if (!cancelled) yield* body;
      } catch (error) {
        // Who has cancelled it knows that the rest is missing.
        if (!cancelled) throw failureOf(error);
      } finally {
        limit.end();
      }
    };
    const end = () => {
      cancelled = true;
      cancel();
      limit.end();
    };
    return { status, headers: fields, body: pieces(), cancel: end };
  }

  /** What the caller's own limit ended says so itself. */
  #failureOf(error: unknown, { signal }: CallLimit): unknown {
    if (signal?.aborted) return signal.reason;
    return this.#disposed ? closedError() : asServerError(error);
  }
}

function localRequest({ url, method = 'GET', headers = [], body, redirect = 'follow' }: HttpRequest) {
  return { url, method, headers, body: body == null ? null : bytesOf(body), redirect, timeoutMs: null };
}

function tooLarge(): ClientError {
  return new ClientError('server', `the body has more than ${MAX_LOCAL_BODY_BYTES} bytes`, {
    code: RpcErrorCode.limitExceeded,
    hint: 'stream it',
  });
}
