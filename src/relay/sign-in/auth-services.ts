import { isObject } from '../../base/is-object.ts';
import { TimeLimit } from '../../base/time-limit.ts';
import { VERSION } from '../../observability/version.ts';
import { MAX_AUTH_SERVICE_ANSWER_BYTES, MAX_AUTH_SERVICE_REDIRECTS } from '../limits.ts';
import { exchangeHttp, failureReason, type HttpResponse } from '../outbound/http-exchange.ts';
import { isLoopbackHost, type OutboundOptions } from '../outbound/proxy.ts';
import { CredentialError } from '../registry-auth.ts';

/** A request to a service that issues or checks credentials. */
interface ServiceRequest {
  readonly url: URL;
  readonly method: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly timeoutMs: number;
  /** Whether to repeat the request at another address that the service names with HTTP 307 or 308. */
  readonly followRedirects?: boolean;
}

/** A service did not respond. The message contains no secret. */
export class AuthServiceError extends Error {
  override readonly name = 'AuthServiceError';
}

/** Sends requests to the services that issue and check credentials. */
export class AuthServices {
  readonly #outbound: OutboundOptions;

  constructor(outbound: OutboundOptions) {
    this.#outbound = outbound;
  }

  /** Rejects with AuthServiceError when the service does not respond in time, or with the reason of `signal`. */
  send(request: ServiceRequest, signal: AbortSignal | null = null): Promise<HttpResponse> {
    const { timeoutMs, url } = request;
    return TimeLimit.run(timeoutMs, signal, async (limited) => {
      try {
        return await this.#send(request, limited);
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        if (error instanceof AuthServiceError) throw error;
        const why = limited.aborted ? `no answer within ${timeoutMs / 1_000} s` : failureReason(error);
        throw new AuthServiceError(`cannot reach ${url.host}: ${why}`);
      }
    });
  }

  async #send(request: ServiceRequest, signal: AbortSignal): Promise<HttpResponse> {
    const { method, headers, body, followRedirects = false } = request;
    const sent = { 'user-agent': `exec-server/${VERSION}`, accept: '*/*', ...headers };
    let { url } = request;
    for (let redirects = 0; ; redirects++) {
      const response = await exchangeHttp(
        { url, method, headers: sent, maxBytes: MAX_AUTH_SERVICE_ANSWER_BYTES, ...(body && { body }) },
        this.#outbound,
        signal,
      );
      const { status, location, truncated } = response;
      if (truncated) throw new AuthServiceError(`the response of ${url.host} is too long`);
      if (!followRedirects || location === null || (status !== 307 && status !== 308)) return response;
      if (redirects === MAX_AUTH_SERVICE_REDIRECTS) {
        throw new AuthServiceError(`${url.host} redirects too often`);
      }
      if (!URL.canParse(location, url.href))
        throw new AuthServiceError(`${url.host} redirects to an invalid URL`);
      url = new URL(location, url);
      if (!isConfidential(url)) throw new AuthServiceError('a redirect leads to an unencrypted connection');
    }
  }
}

/**
 * Parses the URL of a service. `source` names the variable or setting that it comes from. Throws CredentialError for a URL that would
 * send a secret unencrypted over the network.
 */
export function serviceUrl(text: string, source: string): URL {
  const url = URL.canParse(text.trim()) ? new URL(text.trim()) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new CredentialError(`${source} is not an https:// URL`);
  }
  if (isConfidential(url)) return url;
  throw new CredentialError(`${source} must begin with https:// unless it is on this machine`);
}

/** Returns the trimmed value of a variable; null when it is blank or not set. */
export function variable(env: OutboundOptions['env'], name: string): string | null {
  return env[name]?.trim() || null;
}

/** Parses a JSON object; null for anything else. */
export function parseObject(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

function isConfidential({ protocol, hostname }: URL): boolean {
  return protocol === 'https:' || (protocol === 'http:' && isLoopbackHost(hostname));
}
