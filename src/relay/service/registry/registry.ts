import { randomBytes } from 'node:crypto';
import { RelayError } from '../../errors.ts';
import { MAX_AUTHORIZATION_BYTES } from '../../limits.ts';
import { NoisePublicKey } from '../../noise/public-key.ts';
import { SECURITY_PROFILE } from '../../noise/suite.ts';
import type { TokenClaims } from '../access/access-tokens.ts';
import type { Tickets } from '../access/tickets.ts';
import { hashKey, type Store } from '../store/store.ts';
import { RequestError } from './request-error.ts';

/** Dependencies of the registry. */
interface RegistryOptions {
  readonly store: Store;
  readonly tickets: Tickets;
  /** The websocket URL that leads executors to any node. */
  publicUrl(): string;
  /** Called when another executor has replaced the previous one. */
  superseded(environmentId: string, registrationId: string): void;
}

/** The response to a call, and facts for the audit log. */
interface CallResult {
  readonly body: Readonly<Record<string, unknown>>;
  readonly facts: Readonly<Record<string, string>>;
}

/** The body of a request. Unknown members are ignored. */
type CallBody = Readonly<Record<string, unknown>>;

/**
 * Gives executors and harnesses the URLs to connect to, and validates harnesses for executors. The caller has already checked the
 * token. All methods throw RequestError to refuse a call, and StoreUnavailableError.
 */
export class Registry {
  readonly #options: RegistryOptions;

  constructor(options: RegistryOptions) {
    this.#options = options;
  }

  /** Registers an executor, new or returning. A replaced executor cannot register again. */
  async register(environmentId: string, token: TokenClaims, body: CallBody): Promise<CallResult> {
    if (body.security_profile !== SECURITY_PROFILE) {
      throw invalid('unsupported_security_profile', `the security profile is not ${SECURITY_PROFILE}`);
    }
    const { store, tickets, publicUrl, superseded } = this.#options;
    const result = await store.register(environmentId, readKey(body, 'executor_public_key'));
    if (result.outcome === 'superseded') {
      throw new RequestError(409, 'executor_superseded', 'another executor has replaced this one');
    }
    const { outcome, registrationId } = result;
    if (outcome === 'replaced') superseded(environmentId, registrationId);
    const ticket = { role: 'executor', environmentId, registrationId, tokenId: token.id } as const;
    return {
      body: {
        environment_id: environmentId,
        url: tickets.url(publicUrl(), ticket, token.expiresAt),
        security_profile: SECURITY_PROFILE,
        executor_registration_id: registrationId,
      },
      facts: { registrationId, outcome },
    };
  }

  /** Returns a harness the URL of the node to which the executor is connected. */
  async connect(environmentId: string, token: TokenClaims, body: CallBody): Promise<CallResult> {
    const { store, tickets } = this.#options;
    const harnessKeyHash = hashKey(readKey(body, 'harness_public_key'));
    const presence = await store.find(environmentId);
    if (presence === null || presence.node === null) {
      throw new RequestError(409, 'environment_offline', 'the executor is not connected');
    }
    const { registrationId, executorKey } = presence.registration;
    const { id: nodeId, url } = presence.node;
    const authorization = randomBytes(AUTHORIZATION_BYTES).toString('base64url');
    await store.grant(environmentId, authorization, { registrationId, harnessKeyHash });
    const target = { environmentId, registrationId, nodeId, harnessKeyHash };
    const ticket = { role: 'harness', tokenId: token.id, ...target } as const;
    return {
      body: {
        environment_id: environmentId,
        url: tickets.url(url, ticket, token.expiresAt),
        security_profile: SECURITY_PROFILE,
        executor_registration_id: registrationId,
        executor_public_key: executorKey,
        harness_key_authorization: authorization,
      },
      facts: { registrationId, nodeId, harnessKey: shortHash(harnessKeyHash) },
    };
  }

  /** Validates a harness for its executor. Each authorization can be checked once, whatever the result. */
  async validate(environmentId: string, _token: TokenClaims, body: CallBody): Promise<CallResult> {
    const registrationId = readText(body, 'executor_registration_id');
    const authorization = readText(body, 'harness_key_authorization');
    const harnessKeyHash = hashKey(readKey(body, 'harness_public_key'));
    const grant = await this.#options.store.take(environmentId, authorization);
    const valid = grant?.registrationId === registrationId && grant.harnessKeyHash === harnessKeyHash;
    return { body: { valid }, facts: { valid: String(valid), harnessKey: shortHash(harnessKeyHash) } };
  }
}

/** As many random bits as the SHA-256 hash under which the store keeps it. */
const AUTHORIZATION_BYTES = 32;

function readKey(body: CallBody, name: string): NoisePublicKey {
  try {
    return NoisePublicKey.parse(body[name]);
  } catch (error) {
    if (!(error instanceof RelayError)) throw error;
    throw invalid('invalid_key', `${name}: ${error.message}`);
  }
}

function readText(body: CallBody, name: string): string {
  const value = body[name];
  if (typeof value === 'string' && value !== '' && value.length <= MAX_AUTHORIZATION_BYTES) return value;
  throw invalid('invalid_request', `${name} must be a string of 1 to ${MAX_AUTHORIZATION_BYTES} characters`);
}

/** Shortens a key hash for records. */
function shortHash(hash: string): string {
  return hash.slice(0, 16);
}

function invalid(code: string, message: string): RequestError {
  return new RequestError(400, code, message);
}
