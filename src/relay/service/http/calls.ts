import type { IncomingMessage } from 'node:http';
import { type AccessTokens, bearerToken, type TokenClaims, type TokenRole } from '../access/access-tokens.ts';
import { MAX_BODY_BYTES, MAX_REQUEST_COUNTS, REQUEST_PERIOD_MS, REQUESTS_PER_PERIOD } from '../limits.ts';
import type { CallFacts, RelayRecords } from '../records/relay-records.ts';
import type { Registry } from '../registry/registry.ts';
import { RequestError } from '../registry/request-error.ts';
import { StoreUnavailableError } from '../store/store.ts';

/** Dependencies of {@link Calls}. */
interface CallsOptions {
  readonly tokens: AccessTokens;
  readonly registry: Registry;
  readonly budget: RequestBudget;
  readonly records: RelayRecords;
}

/** A registry call of one environment. */
interface Call {
  readonly name: CallFacts['call'];
  readonly environmentId: string;
}

/** Parses the path of a call. Returns null for any other path. */
export function callOf(path: string): Call | null {
  const [, environmentId, name] = CALL_PATH.exec(path) ?? [];
  return environmentId === undefined ? null : { environmentId, name: name as Call['name'] };
}

/** The role that each call requires. */
const ROLE_FOR: Readonly<Record<Call['name'], TokenRole>> = {
  register: 'executor',
  connect: 'harness',
  validate: 'executor',
};

/** Serves the registry's calls over HTTP. */
export class Calls {
  readonly #options: CallsOptions;

  constructor(options: CallsOptions) {
    this.#options = options;
  }

  /** Answers a call. Throws RequestError to refuse it, and UnknownCredentialError for a token that may be guessed. */
  async answer(request: IncomingMessage, { name, environmentId }: Call, address: string | null) {
    const { registry, budget, records } = this.#options;
    if (request.method !== 'POST')
      throw new RequestError(405, 'method_not_allowed', 'use POST for this call');
    const token = this.authorize(request, ROLE_FOR[name], environmentId);
    const call: CallFacts = { call: name, token, address };
    // Counts each call separately: harnesses in a request loop must not block the executor's registration.
    if (!budget.spend(`${name} ${environmentId}`)) {
      records.calledTooOften(name);
      const reason = 'too many requests for this environment; try again later';
      throw new RequestError(429, 'too_many_requests', reason, token.id);
    }
    try {
      const { body, facts } = await registry[name](environmentId, token, await readJsonObject(request));
      records.called(call, 200, facts);
      return body;
    } catch (error) {
      const refusal = asRefusal(error);
      records.called(call, refusal.status, { code: refusal.code });
      throw refusal;
    }
  }

  /** Returns the claims of the request's token. Throws RequestError unless the token has the role and is for the environment. */
  authorize(request: IncomingMessage, role: TokenRole, environmentId: string | null): TokenClaims {
    const token = bearerToken(request.headers.authorization);
    if (token === null) throw new RequestError(401, 'unauthorized', 'the request has no bearer token');
    const claims = this.#options.tokens.check(token);
    if (claims === null) throw new UnknownCredentialError('the token was not issued by this relay');
    if ('problem' in claims) {
      throw new RequestError(401, 'unauthorized', `the token is ${claims.problem}`, claims.tokenId);
    }
    if (claims.role !== role || claims.environmentId !== environmentId) {
      const reason =
        claims.role === role
          ? `the token is for the environment ${claims.environmentId}, not for ${environmentId}`
          : `the token has the role ${claims.role}, not ${role}`;
      throw new RequestError(403, 'forbidden', reason, claims.id);
    }
    return claims;
  }
}

/** A token or ticket that this relay did not issue. The listener delays its response, which slows guessing. */
export class UnknownCredentialError extends RequestError {
  constructor(message: string) {
    super(401, 'unauthorized', message);
  }
}

/** Converts a failure to the error of the response. Unexpected errors are bugs and propagate. */
function asRefusal(error: unknown): RequestError {
  if (error instanceof RequestError) return error;
  if (error instanceof StoreUnavailableError) return storeUnavailable();
  throw error;
}

/** The response does not include the store's error text, which may contain its address. */
export function storeUnavailable(): RequestError {
  return new RequestError(503, 'store_unavailable', 'the relay cannot reach its store; try again later');
}

/** Restricts ids to characters that need no escaping in a path. */
const CALL_PATH = /^\/cloud\/environment\/([A-Za-z0-9_-]{1,64})\/(register|connect|validate)$/;

/** Limits the requests per call and environment within a period. */
export class RequestBudget {
  readonly #now: () => number;
  /** Ordered by the start of the period, oldest first. */
  readonly #spent = new Map<string, { readonly sinceMs: number; count: number }>();

  /** `now` is a monotonic clock in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Counts a request under this name. Returns false when the limit is exceeded. */
  spend(name: string): boolean {
    const nowMs = this.#now();
    const spent = this.#spent.get(name);
    if (spent !== undefined && nowMs - spent.sinceMs < REQUEST_PERIOD_MS) {
      spent.count++;
      return spent.count <= REQUESTS_PER_PERIOD;
    }
    this.#spent.delete(name);
    this.#spent.set(name, { sinceMs: nowMs, count: 1 });
    const [oldest] = this.#spent.keys();
    if (this.#spent.size > MAX_REQUEST_COUNTS && oldest !== undefined) this.#spent.delete(oldest);
    return true;
  }
}

/** Reads the body as a JSON object. Throws RequestError for any other body. The HTTP server limits the time. */
async function readJsonObject(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const type = request.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase();
  if (type !== 'application/json') {
    throw new RequestError(415, 'unsupported_media_type', 'the body must be application/json');
  }
  const value = parse(await readBody(request));
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new RequestError(400, 'invalid_request', 'the body is not a JSON object');
  }
  return value as Record<string, unknown>;
}

const UTF8 = new TextDecoder('utf-8', { fatal: true });

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(UTF8.decode(body));
  } catch {
    throw new RequestError(400, 'invalid_request', 'the body is not JSON');
  }
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const tooLarge = () =>
    new RequestError(413, 'request_too_large', `the body is larger than ${MAX_BODY_BYTES} bytes`);
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw tooLarge();
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > MAX_BODY_BYTES) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
