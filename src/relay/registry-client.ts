import { type IncomingMessage, request as requestPlain } from 'node:http';
import { request as requestSecure } from 'node:https';
import { unlessAborted } from '../base/abort.ts';
import { TimeLimit } from '../base/time-limit.ts';
import { printable } from '../protocol/errors.ts';
import { RelayError } from './errors.ts';
import {
  BUNDLE_TIMEOUT_MS,
  MAX_AUTHORIZATION_BYTES,
  MAX_REGISTRY_ANSWER_BYTES,
  MAX_REGISTRY_MESSAGE_CHARS,
  REGISTER_TIMEOUT_MS,
  VALIDATION_TIMEOUT_MS,
} from './limits.ts';
import { NoisePublicKey } from './noise/public-key.ts';
import { SECURITY_PROFILE } from './noise/suite.ts';
import { isLoopbackHost, type OutboundOptions, openTunnel } from './outbound/proxy.ts';
import type { RegistryAuth } from './registry-auth.ts';
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

  #post(action: Action, body: unknown, limits: Limits, moreHeaders: Headers = {}): Promise<string> {
    return TimeLimit.run(limits.timeoutMs, limits.signal, (signal) =>
      this.#send(action, body, limits, moreHeaders, signal),
    );
  }

  /** `signal` combines the limits. */
  async #send(
    action: Action,
    body: unknown,
    limits: Limits,
    moreHeaders: Headers,
    signal: AbortSignal,
  ): Promise<string> {
    const { url: base, environmentId, auth } = this.#options;
    const path = `${base.pathname.replace(/\/+$/, '')}/cloud/environment/${environmentId}/${action}`;
    const headers = {
      'content-type': 'application/json',
      accept: '*/*',
      ...moreHeaders,
      ...(await credentialOf(auth, limits, signal)),
    };
    let status: number;
    let text: string;
    try {
      [status, text] = await this.#exchange(new URL(path, base), headers, JSON.stringify(body), signal);
    } catch (cause) {
      if (cause instanceof RegistryError || limits.signal.aborted) throw cause;
      const why = signal.aborted ? `no answer within ${limits.timeoutMs / 1_000} s` : reasonOf(cause);
      if (NOT_TRUSTED.test(codeOf(cause))) {
        throw new RegistryError(`the certificate of the registry ${base.host} is not trusted: ${why}`, {
          retryable: false,
          cause,
        });
      }
      throw new RegistryError(`cannot reach the registry ${base.host}: ${why}`, {
        retryable: true,
        cause,
      });
    }
    if (isSuccess(status)) return text;
    throw refusal(action, base.host, status, text, auth);
  }

  async #exchange(url: URL, headers: Headers, body: string, signal: AbortSignal): Promise<[number, string]> {
    const { tls, env } = this.#options;
    const connection = await openTunnel(url, { tls, env }, signal);
    return new Promise((resolve, reject) => {
      const secure = url.protocol === 'https:';
      const asked = (secure ? requestSecure : requestPlain)(url, {
        method: 'POST',
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
        readText(response).then((text) => resolve([response.statusCode ?? 0, text]), reject);
      });
      asked.end(body);
    });
  }
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

/** Returns the id. Throws TypeError for characters that would need escaping in a URL. */
export function checkedEnvironmentId(id: string): string {
  if (/^[A-Za-z0-9_-]{1,64}$/.test(id)) return id;
  throw new TypeError('the environment id must have 1 to 64 letters, digits, - or _');
}

const STREAM_HEADER = 'x-codex-noise-stream-id';

type Action = 'register' | 'connect' | 'validate';
type Answer = Readonly<Record<string, unknown>>;
type Headers = Readonly<Record<string, string>>;

/** Timeout and abort signal of a request. */
interface Limits {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/** Returns the credential headers. A provider that fetches them gets the same timeout as the registry. `over` combines the limits. */
function credentialOf(auth: RegistryAuth, limits: Limits, over: AbortSignal): Promise<Headers> {
  const fetching = async () => auth.headers();
  return unlessAborted(fetching(), over, () => {
    const what = `no credential for the registry within ${limits.timeoutMs / 1_000} s`;
    throw limits.signal.aborted ? limits.signal.reason : new RegistryError(what, { retryable: true });
  });
}

/** Reads a response. Throws if it is too long, except for a refusal, where the beginning is enough. */
async function readText(response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > MAX_REGISTRY_ANSWER_BYTES) {
      response.destroy();
      if (!isSuccess(response.statusCode)) break;
      throw new RegistryError('the response of the registry is too long', { retryable: false });
    }
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

function isSuccess(status = 0): boolean {
  return status >= 200 && status <= 299;
}

/** Temporary failures are those of the reference: 408, 429, 5xx, and an environment whose executor is offline. */
export function refusal(
  action: string,
  host: string,
  status: number,
  text: string,
  auth: RegistryAuth,
): RegistryError {
  const { code, message } = auth.revealedIn?.(text) ? { code: null, message: '' } : errorOf(text);
  const offline = status === 409 && code === 'environment_offline';
  const retryable = status >= 500 || status === 408 || status === 429 || offline;
  const detail = [code, message].filter(Boolean).join(': ');
  const what = `the registry ${host} answered ${action} with HTTP ${status}${detail === '' ? '' : ` (${detail})`}`;
  return new RegistryError(what, { status, code, retryable });
}

function errorOf(text: string): { readonly code: string | null; readonly message: string } {
  try {
    const { code, message } = (JSON.parse(text) as { error: Answer }).error;
    return {
      code: typeof code === 'string' ? printable(code, MAX_REGISTRY_MESSAGE_CHARS) : null,
      message: typeof message === 'string' ? printable(message, MAX_REGISTRY_MESSAGE_CHARS) : '',
    };
  } catch {
    return { code: null, message: printable(text.trim(), MAX_REGISTRY_MESSAGE_CHARS) };
  }
}

export function parse(action: string, text: string): Answer {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    throw malformed(action, 'it is not JSON');
  }
  if (typeof answer === 'object' && answer !== null && !Array.isArray(answer)) return answer as Answer;
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

/** Error codes of Node for untrusted certificates. A retry does not help. */
const NOT_TRUSTED = /CERT|SELF_SIGNED|UNABLE_TO_/;

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : '';
}

/** When all addresses of a host fail, Node throws an AggregateError without a message. */
function reasonOf(error: unknown): string {
  const failure = error instanceof AggregateError ? error.errors[0] : error;
  return failure instanceof Error ? failure.message : String(failure);
}
