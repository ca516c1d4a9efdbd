import { type IncomingMessage, request as requestPlain } from 'node:http';
import { request as requestSecure } from 'node:https';
import { type OutboundOptions, openTunnel } from './proxy.ts';

/** A request whose response is small. */
export interface HttpRequest {
  readonly url: URL;
  readonly method: 'GET' | 'POST' | 'PUT';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Bytes of the response that are read. */
  readonly maxBytes: number;
}

/** A response. Its text is cut at the limit of the request. */
export interface HttpResponse {
  readonly status: number;
  readonly text: string;
  readonly truncated: boolean;
  /** The header `location`. */
  readonly location: string | null;
}

/** Sends a request, through a proxy where one is configured. Does not follow redirects. Rejects with the system's error. */
export async function exchangeHttp(
  request: HttpRequest,
  { tls, env }: OutboundOptions,
  signal: AbortSignal,
): Promise<HttpResponse> {
  const { url, method, headers, body } = request;
  const connection = await openTunnel(url, { tls, env }, signal);
  return new Promise((resolve, reject) => {
    const secure = url.protocol === 'https:';
    const asked = (secure ? requestSecure : requestPlain)(url, {
      method,
      headers,
      signal,
      ...(connection === undefined ? { agent: false } : { createConnection: () => connection }),
      ...(secure && (tls as object)),
    });
    asked.once('error', (error) => {
      connection?.destroy();
      reject(error);
    });
    // A response that switches protocols emits no `response` event.
    const unanswered = () => reject(new Error('it closed the connection without a response'));
    asked.once('close', unanswered);
    asked.once('response', (response) => {
      asked.off('close', unanswered);
      readText(response, request.maxBytes).then(resolve, reject);
    });
    asked.end(body);
  });
}

async function readText(response: IncomingMessage, maxBytes: number): Promise<HttpResponse> {
  const parts: Buffer[] = [];
  let length = 0;
  let truncated = false;
  for await (const part of response as AsyncIterable<Buffer>) {
    length += part.length;
    truncated = length > maxBytes;
    if (truncated) break;
    parts.push(part);
  }
  response.destroy();
  return {
    status: response.statusCode ?? 0,
    text: Buffer.concat(parts).toString(),
    truncated,
    location: response.headers.location ?? null,
  };
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status <= 299;
}

/** Whether the error means that a certificate is not trusted. A retry does not help. */
export function isUntrusted(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' && /CERT|SELF_SIGNED|UNABLE_TO_/.test(code);
}

/** Describes a failed request. When all addresses of a host fail, Node throws an AggregateError without a message. */
export function failureReason(error: unknown): string {
  const failure = error instanceof AggregateError ? error.errors[0] : error;
  return failure instanceof Error ? failure.message : String(failure);
}
