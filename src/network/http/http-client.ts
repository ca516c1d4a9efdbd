import type { Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import { TimeLimit } from '../../base/time-limit.ts';
import { withTimeout } from '../../base/with-timeout.ts';
import { NetworkError } from '../errors.ts';
import { IDLE_CONNECTION_MS, MAX_REDIRECTS, SHARED_OPENING_MS } from '../limits.ts';
import {
  Connections,
  exchangeOverHttp1,
  exchangeOverHttp2,
  type Outgoing,
  type RawResponse,
  StaleConnectionError,
} from './exchange.ts';
import {
  type HeaderField,
  type HeaderVariables,
  type Variables,
  valuesOf,
  withField,
} from './header-fields.ts';
import { type HostPolicy, requireHost } from './host-policy.ts';
import { Http2Sessions } from './http2-sessions.ts';
import { openSocket } from './open-socket.ts';
import { nextHop } from './redirects.ts';
import { basicCredentials, firstHop, type Hop, type HttpRequest, shownUrl, wireFields } from './request.ts';
import { type Route, routeTo } from './route.ts';
import { trustedAuthorities } from './trusted-authorities.ts';

/** The response to a request. Its body must be read to the end or cancelled; until then it holds a connection. */
export interface HttpResponse {
  readonly status: number;
  readonly fields: readonly HeaderField[];
  /** For one reader; leaving the loop early cancels. Throws NetworkError when the body is incomplete. */
  readonly body: AsyncIterable<Buffer>;
  cancel(): void;
}

interface HttpClientOptions {
  /** Provides proxies, the CA certificate file and values of headers. */
  readonly env: Variables;
  /** Which variables of `env` headers may use. */
  readonly headerVariables: HeaderVariables;
  readonly policy: HostPolicy;
  /** How long an idle connection is kept; {@link IDLE_CONNECTION_MS} when absent. */
  readonly idleConnectionMs?: number;
  /** How long a request waits for a connection that another request is opening. */
  readonly sharedOpeningMs?: number;
}

/** Sends requests to web servers. Keeps connections for later requests and closes them with the client. */
export class HttpClient {
  readonly #env: Variables;
  readonly #headerVariables: HeaderVariables;
  readonly #sharedOpeningMs: number;
  readonly #policy: HostPolicy;
  readonly #connections: Connections;
  readonly #sessions: Http2Sessions;
  readonly #closed = new AbortController();
  #authorities: Promise<SecureContext> | null = null;

  constructor({
    env,
    headerVariables,
    policy,
    idleConnectionMs = IDLE_CONNECTION_MS,
    sharedOpeningMs = SHARED_OPENING_MS,
  }: HttpClientOptions) {
    this.#env = env;
    this.#headerVariables = headerVariables;
    this.#sharedOpeningMs = sharedOpeningMs;
    this.#policy = policy;
    this.#connections = new Connections(idleConnectionMs);
    this.#sessions = new Http2Sessions(idleConnectionMs);
  }

  /** Resolves with the head of the response. Rejects with NetworkError. `signal` applies until the body has ended. */
  async send(request: HttpRequest, signal: AbortSignal): Promise<HttpResponse> {
    const first = firstHop(request, this.#env, this.#headerVariables);
    wireFields(first);
    requireHost(this.#policy, first.url);
    const deadline = requestLimit([signal, this.#closed.signal], request.timeoutMs);
    try {
      return this.#finished(await this.#follow(first, request.redirect, deadline), deadline);
    } catch (error) {
      deadline.end();
      throw error;
    }
  }

  /** Aborts all requests and closes all connections. */
  close(): void {
    this.#closed.abort(new Error('the connection has ended'));
    this.#connections.destroy();
    this.#sessions.close();
  }

  async #follow(first: Hop, redirect: 'follow' | 'stop', deadline: TimeLimit): Promise<RawResponse> {
    let hop = first;
    for (let redirects = 0; ; redirects++) {
      const answer = await this.#exchange(hop, deadline.signal);
      const next = redirect === 'stop' ? null : follow(hop, answer);
      if (next === null) return answer;
      discardBody(answer);
      if (redirects === MAX_REDIRECTS)
        throw new NetworkError('failed', 'http/request failed: too many redirects');
      requireHost(this.#policy, next.url);
      hop = next;
    }
  }

  /** Repeats a request once, on a new connection, if the connection was just being closed and repeating is safe. */
  async #exchange(hop: Hop, signal: AbortSignal): Promise<RawResponse> {
    try {
      const route = routeTo(hop.url, this.#env);
      try {
        return await this.#sendOn(route, hop, signal);
      } catch (error) {
        if (!(error instanceof StaleConnectionError)) throw error;
        if (error.seen && !REPEATABLE.has(hop.method)) throw error;
        this.#connections.dropIdle(route.key);
        return await this.#sendOn(route, hop, signal);
      }
    } catch (error) {
      throw sendingFailed(hop.url, error, signal);
    }
  }

  async #sendOn(route: Route, hop: Hop, signal: AbortSignal): Promise<RawResponse> {
    const outgoing = outgoingOn(route, hop);
    const { key } = route;
    // The first request finds out the server's protocol. The others may share its connection, but do not wait long: it may hang.
    const until = performance.now() + this.#sharedOpeningMs;
    let opening = this.#sessions.opening(key);
    for (let left = this.#sharedOpeningMs; opening !== null && left > 0; left = until - performance.now()) {
      await withTimeout(opening, left, { signal });
      opening = this.#sessions.opening(key);
    }
    const shared = this.#sessions.acquire(key);
    if (shared !== null) return sendShared(shared, outgoing, signal);
    let socket: Socket | null = null;
    if (!this.#connections.hasIdle(key)) {
      const connecting = this.#open(route, hop, signal);
      if (route.secure) this.#sessions.trackOpening(key, connecting);
      socket = await connecting;
      // The server chooses a protocol for each connection; this connection's choice applies.
      const own = socket === null ? this.#sessions.acquire(key) : null;
      if (own !== null) return sendShared(own, outgoing, signal);
    }
    return exchangeOverHttp1(this.#connections, key, socket, outgoing, signal);
  }

  /** Opens a connection. Null for HTTP/2, whose session is then in {@link Http2Sessions}. */
  async #open(route: Route, { url }: Hop, signal: AbortSignal): Promise<Socket | null> {
    const settings = {
      policy: this.#policy,
      authorities: () => this.#trusted(),
      protocols: ['h2', 'http/1.1'],
    };
    const socket = await openSocket(route, settings, signal);
    if (!('alpnProtocol' in socket) || socket.alpnProtocol !== 'h2') return socket;
    this.#sessions.add(route.key, url.origin, socket);
    return null;
  }

  /** Reads the certificates once, and again after a failure. */
  #trusted(): Promise<SecureContext> {
    this.#authorities ??= trustedAuthorities(this.#env).catch((error: unknown) => {
      this.#authorities = null;
      throw error;
    });
    return this.#authorities;
  }

  #finished(answer: RawResponse, deadline: TimeLimit): HttpResponse {
    const { status, fields, body } = answer;
    const abort = () => {
      // The body may never be read.
      deadline.end();
      body.destroy(deadline.signal.reason as Error);
    };
    // The reader gets the error. Without a reader it would be unhandled.
    body.on('error', () => {});
    deadline.signal.addEventListener('abort', abort);
    if (deadline.signal.aborted) abort();
    const cancel = () => {
      deadline.end();
      body.destroy();
    };
    return { status, fields, body: pieces(answer, deadline, cancel), cancel };
  }
}

/** Aborts a request after its timeout or when one of the signals aborts. */
function requestLimit(signals: readonly AbortSignal[], timeoutMs: number | null): TimeLimit {
  const timeUp = () => new RequestTimeoutError(`it took longer than ${timeoutMs} ms`);
  return new TimeLimit(timeoutMs, signals, { timeUp });
}

/** The client's timeout has passed. */
class RequestTimeoutError extends Error {
  override readonly name = 'RequestTimeoutError';
}

/** Idempotent methods. */
const REPEATABLE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']);

/** To a proxy without TLS the request names the server in its target and carries the proxy's credentials. */
function outgoingOn(route: Route, hop: Hop): Outgoing {
  const { url, method } = hop;
  const fields = wireFields(hop);
  if (method === 'CONNECT') return { hop, fields, target: route.authority };
  const path = `${url.pathname}${url.search}`;
  const { proxy } = route;
  if (proxy === null || route.secure) return { hop, fields, target: path };
  const known = proxy.username !== '' || proxy.password !== '';
  const named = known && valuesOf(fields, 'proxy-authorization').length === 0;
  const sent = named
    ? withField(fields, { name: 'proxy-authorization', value: basicCredentials(proxy) })
    : fields;
  return { hop, fields: sent, target: `${url.origin}${path}` };
}

async function sendShared(
  { session, release }: NonNullable<ReturnType<Http2Sessions['acquire']>>,
  outgoing: Outgoing,
  signal: AbortSignal,
): Promise<RawResponse> {
  try {
    const answer = await exchangeOverHttp2(session, outgoing, signal);
    answer.body.once('close', release);
    return answer;
  } catch (error) {
    release();
    throw error;
  }
}

function follow(hop: Hop, answer: RawResponse): Hop | null {
  try {
    return nextHop(hop, answer.status, valuesOf(answer.fields, 'location')[0]);
  } catch (error) {
    discardBody(answer);
    throw error;
  }
}

/** Discards the body of a redirect. After an empty body the connection is reused; any other body ends it. */
function discardBody({ fields, body }: RawResponse): void {
  body.on('error', () => {});
  if (valuesOf(fields, 'content-length')[0] === '0') body.resume();
  else body.destroy();
}

async function* pieces(
  { body, isWhole }: RawResponse,
  deadline: TimeLimit,
  cancel: () => void,
): AsyncGenerator<Buffer> {
  try {
    for await (const piece of body) yield piece as Buffer;
    if (!isWhole()) throw new Error(EARLY_END);
  } catch (error) {
    throw readingFailed(error, deadline.signal);
  } finally {
    cancel();
  }
}

function sendingFailed(url: URL, error: unknown, signal: AbortSignal): NetworkError {
  const cause = signal.aborted ? signal.reason : error;
  if (cause instanceof NetworkError) return cause;
  const message = `http/request failed: error sending request for url (${shownUrl(url)}): ${reasonOf(cause)}`;
  return new NetworkError('failed', message, { cause });
}

function readingFailed(error: unknown, signal: AbortSignal): NetworkError {
  const cause = signal.aborted ? signal.reason : error;
  const reason = (cause as { code?: unknown }).code === 'ECONNRESET' ? EARLY_END : reasonOf(cause);
  return new NetworkError('failed', `error decoding response body: ${reason}`, { cause });
}

const EARLY_END = 'the connection ended before the body did';

/** A connection attempt to several addresses fails with all of their errors. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return error instanceof Error ? error.message || error.name : String(error);
}
