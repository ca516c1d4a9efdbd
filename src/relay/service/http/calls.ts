import type { IncomingMessage } from 'node:http';
import type { AccessTokens, TokenClaims, TokenRole } from '../access/access-tokens.ts';
import { bearerToken } from '../access/access-tokens.ts';
import type { CallFacts, RelayRecords } from '../records/relay-records.ts';
import type { Registry } from '../registry/registry.ts';
import type { RequestBudget } from '../registry/request-budget.ts';
import { RequestError } from '../registry/request-error.ts';
import { StoreUnavailableError } from '../store/store.ts';
import { readJsonObject } from './json-request.ts';

/** What the calls need. */
export interface CallsOptions {
  readonly tokens: AccessTokens;
  readonly registry: Registry;
  readonly budget: RequestBudget;
  readonly records: RelayRecords;
}

/** A call that a path names. */
export interface Call {
  readonly name: CallFacts['call'];
  readonly environmentId: string;
}

/** The call of a path; null where it names none. */
export function callOf(path: string): Call | null {
  const [, environmentId, name] = CALL_PATH.exec(path) ?? [];
  return environmentId === undefined ? null : { environmentId, name: name as Call['name'] };
}

/** Who may make which call. */
const ROLE_FOR: Readonly<Record<Call['name'], TokenRole>> = {
  register: 'executor',
  connect: 'harness',
  validate: 'executor',
};

/** The calls of the registry over HTTP. */
export class Calls {
  readonly #options: CallsOptions;

  constructor(options: CallsOptions) {
    this.#options = options;
  }

  /** Answers a call. Throws RequestError for what is refused, and GuessError for what may be a guess. */
  async answer(request: IncomingMessage, { name, environmentId }: Call, address: string | null) {
    const { registry, budget, records } = this.#options;
    if (request.method !== 'POST')
      throw new RequestError(405, 'method_not_allowed', 'calls are POST requests');
    const token = this.authorize(request, ROLE_FOR[name], environmentId);
    const call: CallFacts = { call: name, token, address };
    try {
      // Each call has a count of its own: harnesses that ask without end keep no executor from coming back.
      if (!budget.spend(`${name} ${environmentId}`)) {
        throw new RequestError(429, 'too_many_requests', 'this environment has too many requests');
      }
      const { body, facts } = await registry[name](environmentId, token, await readJsonObject(request));
      records.called(call, 200, facts);
      return body;
    } catch (error) {
      const refusal = asRefusal(error);
      records.called(call, refusal.status, { code: refusal.code });
      throw refusal;
    }
  }

  /** The claims of a request's token. Throws RequestError unless it is of the role, and for the environment if there is one. */
  authorize(request: IncomingMessage, role: TokenRole, environmentId: string | null): TokenClaims {
    const token = bearerToken(request.headers.authorization);
    if (token === null) throw new RequestError(401, 'unauthorized', 'the request has no bearer token');
    const claims = this.#options.tokens.check(token);
    if (claims === null) throw new GuessError('the token is not one of this relay');
    if ('problem' in claims) {
      throw new RequestError(401, 'unauthorized', `the token is ${claims.problem}`, claims.tokenId);
    }
    if (claims.role !== role || claims.environmentId !== environmentId) {
      const reason = `the token is not for this: it needs the role ${role}`;
      throw new RequestError(403, 'forbidden', reason, claims.id);
    }
    return claims;
  }
}

/** A token or ticket that this relay has not made: who tries many of them is slowed. */
export class GuessError extends RequestError {
  constructor(message: string) {
    super(401, 'unauthorized', message);
  }
}

/** How a failure is answered. What is not expected here is a defect, and passes. */
function asRefusal(error: unknown): RequestError {
  if (error instanceof RequestError) return error;
  if (error instanceof StoreUnavailableError) return storeUnavailable();
  throw error;
}

/** The store's own words may name its address. */
export function storeUnavailable(): RequestError {
  return new RequestError(503, 'store_unavailable', 'the relay cannot reach its store; try again');
}

/** Ids with other characters would be other paths. */
const CALL_PATH = /^\/cloud\/environment\/([A-Za-z0-9_-]{1,64})\/(register|connect|validate)$/;
