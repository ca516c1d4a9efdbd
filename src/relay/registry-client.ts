import { unlessAborted } from '../base/abort.ts';
import { isObject } from '../base/is-object.ts';
import { TimeLimit } from '../base/time-limit.ts';
import { printable } from '../protocol/errors.ts';
import { RelayError } from './errors.ts';
import {
  BUNDLE_TIMEOUT_MS,
  MAX_AUTHORIZATION_BYTES,
  MAX_ENVIRONMENT_ID_CHARS,
  MAX_REGISTRY_ANSWER_BYTES,
  MAX_REGISTRY_MESSAGE_CHARS,
  REGISTER_TIMEOUT_MS,
  VALIDATION_TIMEOUT_MS,
} from './limits.ts';
import { NoisePublicKey } from './noise/public-key.ts';
import { SECURITY_PROFILE } from './noise/suite.ts';
import {
  exchangeHttp,
  failureReason,
  type HttpResponse,
  isSuccess,
  isUntrusted,
} from './outbound/http-exchange.ts';
import { isLoopbackHost, type OutboundOptions } from './outbound/proxy.ts';
import type { AuthHeaders, RegistryAuth } from './registry-auth.ts';
import { secretsOf, withoutSecrets } from './secrets.ts';
import type { HarnessClaim } from './stream/executor-link.ts';

/** The registry, the environment and the credentials. */
interface RegistryOptions extends OutboundOptions {
  readonly url: URL;
  readonly environmentId: string;
  readonly auth: RegistryAuth;
}

/** The result of a registration. */
export interface Registration {
  readonly url: string;
  readonly registrationId: string;
}

/** What a harness needs to connect once. Its parts belong together. */
export interface Bundle extends Registration {
  readonly executorKey: NoisePublicKey;
  readonly authorization: string;
}

/** The registry could not be reached, or refused the request. */
export class RegistryError extends Error {
  override readonly name = 'RegistryError';
  /** HTTP status; null without a response. */
  readonly status: number | null;
  /** Error code of the registry. */
  readonly code: string | null;
  /** Whether the failure is temporary. */
  readonly retryable: boolean;

  constructor(
    message: string,
    details: {
      readonly status?: number;
      readonly code?: string | null;
      readonly retryable: boolean;
      readonly cause?: unknown;
    },
  ) {
    super(message, { cause: details.cause });
    this.status = details.status ?? null;
    this.code = details.code ?? null;
    this.retryable = details.retryable;
  }
}

/** Sends requests to a registry. Does not follow redirects, so the token reaches only the configured host. All reject with RegistryError. */
export class RegistryClient {
  readonly #options: RegistryOptions;

  constructor(options: RegistryOptions) {
    this.#options = options;
  }

  /** Registers an executor for the environment. */
  async register(executorKey: NoisePublicKey, signal: AbortSignal): Promise<Registration> {
    const body = { security_profile: SECURITY_PROFILE, executor_public_key: executorKey };
    const text = await this.#post('register', body, { signal, timeoutMs: REGISTER_TIMEOUT_MS });
    if (this.#options.auth.revealedIn?.(text)) {
      throw malformed('register', 'it contains the credential');
    }
    return this.#registration('register', parse('register', text));
  }

  /** Requests what a harness needs to connect to the executor. */
  async connect(harnessKey: NoisePublicKey, signal: AbortSignal): Promise<Bundle> {
    const body = { harness_public_key: harnessKey };
    const text = await this.#post('connect', body, { signal, timeoutMs: BUNDLE_TIMEOUT_MS });
    const answer = parse('connect', text);
    const authorization = textOf('connect', answer, 'harness_key_authorization');
    if (Buffer.byteLength(authorization) > MAX_AUTHORIZATION_BYTES) {
      throw malformed('connect', "'harness_key_authorization' is too long");
    }
    const executorKey = keyOf(answer.executor_public_key);
    return { ...this.#registration('connect', answer), executorKey, authorization };
  }

  /** Whether the registry authorizes the harness. */
  async validate(claim: HarnessClaim, signal: AbortSignal): Promise<boolean> {
    const body = {
      executor_registration_id: claim.registrationId,
      harness_public_key: claim.harnessKey,
      harness_key_authorization: claim.authorization,
    };
    // The peer chooses the stream id, which may not be valid in a header.
    const header = /^[\x20-\x7e]{1,200}$/.test(claim.streamId) ? { [STREAM_HEADER]: claim.streamId } : {};
    const limits = { signal, timeoutMs: VALIDATION_TIMEOUT_MS };
    return parse('validate', await this.#post('validate', body, limits, header)).valid === true;
  }

  #registration(action: Action, answer: Answer): Registration {
    const environmentId = textOf(action, answer, 'environment_id');
    if (environmentId !== this.#options.environmentId)
      throw malformed(action, 'it is for another environment');
    if (textOf(action, answer, 'security_profile') !== SECURITY_PROFILE) {
      throw malformed(action, `its security profile is not ${SECURITY_PROFILE}`);
    }
    const url = textOf(action, answer, 'url');
    if (!URL.canParse(url) || !/^wss?:$/.test(new URL(url).protocol) || new URL(url).hash !== '') {
      throw malformed(action, "'url' is not a websocket URL");
    }
    return { url, registrationId: textOf(action, answer, 'executor_registration_id') };
  }

  /** Sends the request, and once more after a 401 if the credential can be renewed. */
  async #post(action: Action, body: unknown, limits: Limits, moreHeaders: AuthHeaders = {}): Promise<string> {
    const { auth } = this.#options;
    const attempt: Attempt = {
      action,
      body: JSON.stringify(body),
      limits,
      moreHeaders,
      sent: {},
      secrets: [],
    };
    try {
      return await this.#send(attempt);
    } catch (error) {
      if (!(error instanceof RegistryError) || error.status !== 401) throw error;
      const renewing = auth.refreshAfterUnauthorized?.(attempt.sent) ?? Promise.resolve(false);
      if (!(await unlessAborted(renewing, limits.signal))) throw error;
    }
    return this.#send(attempt);
  }

  #send(attempt: Attempt): Promise<string> {
    const { signal, timeoutMs } = attempt.limits;
    return TimeLimit.run(timeoutMs, signal, (limited) => this.#sendWithin(attempt, limited));
  }

  /** `signal` combines the limits. */
  async #sendWithin(attempt: Attempt, signal: AbortSignal): Promise<string> {
    const { url: base, auth } = this.#options;
    const { action, limits, body } = attempt;
    attempt.sent = await credentialOf(auth, limits, signal);
    attempt.secrets.push(...secretsOf(attempt.sent));
    const headers = {
      ...attempt.moreHeaders,
      'content-type': 'application/json',
      ...attempt.sent,
      accept: '*/*',
    };
    const request = {
      url: callUrl(base, this.#options.environmentId, action),
      method: 'POST',
      headers,
      body,
      maxBytes: MAX_REGISTRY_ANSWER_BYTES,
    } as const;
    const response = await exchangeHttp(request, this.#options, signal).catch((cause: unknown) => {
      if (limits.signal.aborted) throw cause;
      const why = signal.aborted ? `no answer within ${limits.timeoutMs / 1_000} s` : failureReason(cause);
      throw isUntrusted(cause)
        ? new RegistryError(`the certificate of the registry ${base.host} is not trusted: ${why}`, {
            retryable: false,
            cause,
          })
        : new RegistryError(`cannot reach the registry ${base.host}: ${why}`, { retryable: true, cause });
    });
    const { status, text, truncated } = response;
    if (!isSuccess(status)) throw refusal(action, base.host, response, attempt.secrets);
    if (truncated) throw new RegistryError('the response of the registry is too long', { retryable: false });
    return text;
  }
}

/** The URL of a call about an environment. */
export function callUrl(base: URL, environmentId: string, action: string): URL {
  const url = new URL(base);
  const prefix = base.pathname.replace(/\/+$/, '');
  url.pathname = `${prefix}/cloud/environment/${encodeURI(environmentId)}/${action}`;
  return url;
}

/**
 * Parses the base URL of a registry. Throws TypeError for an invalid URL. Unless `allowPlain` is set, also for an `http:` URL that
 * would send the token unencrypted over the network.
 */
export function parseRegistryUrl(text: string, { allowPlain = false } = {}): URL {
  const url = URL.canParse(text.trim()) ? new URL(text.trim()) : null;
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new TypeError('the registry URL is not an http:// or https:// URL');
  }
  if (url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '') {
    throw new TypeError('the registry URL must contain only a host and a path');
  }
  if (url.protocol === 'http:' && !allowPlain && !isLoopbackHost(url.hostname)) {
    throw new TypeError('the registry URL must begin with https:// unless it is on this machine');
  }
  return url;
}

/**
 * Returns the id without surrounding blanks. Throws TypeError for an id that would change the path of a URL. The reference sends such
 * an id, and reaches another path.
 */
export function checkedEnvironmentId(text: string): string {
  const id = text.trim();
  if (id === '') throw new TypeError('the environment id is empty');
  if (id.length > MAX_ENVIRONMENT_ID_CHARS) {
    throw new TypeError(`the environment id has more than ${MAX_ENVIRONMENT_ID_CHARS} characters`);
  }
  if (!/[\\/?#%\x00-\x1f\x7f\p{Surrogate}]|^\.\.?$/u.test(id)) return id;
  throw new TypeError('the environment id must not be . or .., or contain / \\ ? # % or control characters');
}

const STREAM_HEADER = 'x-codex-noise-stream-id';

type Action = 'register' | 'connect' | 'validate';
type Answer = Readonly<Record<string, unknown>>;

/** Timeout and abort signal of a request. */
interface Limits {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/** A request that may be sent twice. */
interface Attempt {
  readonly action: Action;
  readonly body: string;
  readonly limits: Limits;
  readonly moreHeaders: AuthHeaders;
  /** The credential headers that were sent last. */
  sent: AuthHeaders;
  /** The secrets of all credentials that were sent. */
  readonly secrets: string[];
}

/** Returns the credential headers. A provider that fetches them gets the same timeout as the registry. `over` combines the limits. */
function credentialOf(auth: RegistryAuth, limits: Limits, over: AbortSignal): Promise<AuthHeaders> {
  const fetching = async () => auth.headers();
  return unlessAborted(fetching(), over, () => {
    const what = `no credential for the registry within ${limits.timeoutMs / 1_000} s`;
    throw limits.signal.aborted ? limits.signal.reason : new RegistryError(what, { retryable: true });
  });
}

/**
 * Temporary failures are those of the reference: 408, 429, 5xx, and an environment whose executor is offline. The error hides
 * secrets that the registry repeats.
 */
export function refusal(
  action: string,
  host: string,
  response: Pick<HttpResponse, 'status' | 'text' | 'truncated'>,
  secrets: readonly string[],
): RegistryError {
  const { status } = response;
  // A cut text may end with a part of a secret.
  const text = response.truncated ? '' : response.text;
  const answer = errorOf(text);
  const offline = status === 409 && answer.code === 'environment_offline';
  const retryable = status >= 500 || status === 408 || status === 429 || offline;
  // Before the text is truncated, which could leave a part of a secret.
  const shown = (part: string) => printable(withoutSecrets(part, secrets), MAX_REGISTRY_MESSAGE_CHARS);
  const code = answer.code === null ? null : shown(answer.code) || null;
  const detail = [code, shown(answer.message)].filter(Boolean).join(': ');
  const what = `the registry ${host} answered ${action} with HTTP ${status}${detail === '' ? '' : ` (${detail})`}`;
  return new RegistryError(what, { status, code, retryable });
}

/** Reads `{"error":{"code","message"}}`, or the same below `detail`. Any other body is the message. */
function errorOf(text: string): { readonly code: string | null; readonly message: string } {
  try {
    const body = JSON.parse(text) as { readonly error?: Answer; readonly detail?: Answer };
    const { code, message } = body.error ?? (body.detail as Answer);
    if (code === undefined && message === undefined) throw new TypeError('not an error');
    return {
      code: typeof code === 'string' ? code : null,
      message: typeof message === 'string' ? message : '',
    };
  } catch {
    return { code: null, message: text.trim() };
  }
}

export function parse(action: string, text: string): Answer {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    throw malformed(action, 'it is not JSON');
  }
  if (isObject(answer)) return answer as Answer;
  throw malformed(action, 'it is not an object');
}

export function textOf(action: string, answer: Answer, key: string): string {
  const value = answer[key];
  if (typeof value === 'string' && value.trim() !== '') return value;
  throw malformed(action, `'${key}' is missing`);
}

function keyOf(value: unknown): NoisePublicKey {
  try {
    return NoisePublicKey.parse(value);
  } catch (error) {
    if (!(error instanceof RelayError)) throw error;
    throw malformed('connect', error.message);
  }
}

export function malformed(action: string, what: string): RegistryError {
  return new RegistryError(`invalid response of the registry to ${action}: ${what}`, {
    retryable: false,
  });
}
