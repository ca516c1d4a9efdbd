import { type IncomingMessage, request as requestPlain } from 'node:http';
import { request as requestSecure } from 'node:https';
import { unlessAborted } from '../base/abort.ts';
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

/** Which registry is asked about which environment, and as whom. */
export interface RegistryOptions extends OutboundOptions {
  readonly url: URL;
  readonly environmentId: string;
  readonly auth: RegistryAuth;
}

/** What an executor gets for its registration. */
export interface Registration {
  readonly url: string;
  readonly registrationId: string;
}

/** What a harness gets to connect once. Its parts belong together. */
export interface Bundle extends Registration {
  readonly executorKey: NoisePublicKey;
  readonly authorization: string;
}

/** The registry could not be asked, or said no. */
export class RegistryError extends Error {
  override readonly name = 'RegistryError';
  /** The status of its answer; null when there was none. */
  readonly status: number | null;
  /** What the registry calls it. */
  readonly code: string | null;
  /** Whether it may pass by itself. */
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

/** Asks a registry. Redirects are not followed: a token goes nowhere but where it was meant to go. All reject with RegistryError. */
export class RegistryClient {
  readonly #options: RegistryOptions;

  constructor(options: RegistryOptions) {
    this.#options = options;
  }

  /** Tells who serves the environment. */
  async register(executorKey: NoisePublicKey, signal: AbortSignal): Promise<Registration> {
    const body = { security_profile: SECURITY_PROFILE, executor_public_key: executorKey };
    const text = await this.#post('register', body, { signal, timeoutMs: REGISTER_TIMEOUT_MS });
    if (this.#options.auth.revealedIn?.(text)) {
      throw malformed('register', 'it repeats the credential');
    }
    return this.#registration('register', parse('register', text));
  }

  /** Asks for what is needed to reach the executor. */
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

  /** Whether a harness may come in. */
  async validate(claim: HarnessClaim, signal: AbortSignal): Promise<boolean> {
    const body = {
      executor_registration_id: claim.registrationId,
      harness_public_key: claim.harnessKey,
      harness_key_authorization: claim.authorization,
    };
    // What the peer chose for the name of its stream may be anything; a header may not.
    const header = /^[\x20-\x7e]{1,200}$/.test(claim.streamId) ? { [STREAM_HEADER]: claim.streamId } : {};
    const limits = { signal, timeoutMs: VALIDATION_TIMEOUT_MS };
    return parse('validate', await this.#post('validate', body, limits, header)).valid === true;
  }

  #registration(action: Action, answer: Answer): Registration {
    const environmentId = textOf(action, answer, 'environment_id');
    if (environmentId !== this.#options.environmentId)
      throw malformed(action, 'it is about another environment');
    if (textOf(action, answer, 'security_profile') !== SECURITY_PROFILE) {
      throw malformed(action, `its security profile is not ${SECURITY_PROFILE}`);
    }
    const url = textOf(action, answer, 'url');
    if (!URL.canParse(url) || !/^wss?:$/.test(new URL(url).protocol) || new URL(url).hash !== '') {
      throw malformed(action, "'url' is no websocket URL");
    }
    return { url, registrationId: textOf(action, answer, 'executor_registration_id') };
  }

  async #post(action: Action, body: unknown, limits: Limits, moreHeaders: Headers = {}): Promise<string> {
    const { url: base, environmentId, auth } = this.#options;
    const path = `${base.pathname.replace(/\/+$/, '')}/cloud/environment/${environmentId}/${action}`;
    const signal = AbortSignal.any([limits.signal, AbortSignal.timeout(limits.timeoutMs)]);
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
        throw new RegistryError(`the registry ${base.host} is not trusted: ${why}`, {
          retryable: false,
          cause,
        });
      }
      throw new RegistryError(`the registry ${base.host} cannot be reached: ${why}`, {
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
      // An answer that switches to another protocol is none, and comes as no event.
      const unanswered = () => reject(new Error('it closed the connection without an answer'));
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
 * The base URL of a registry. Throws TypeError for one that is none, and for one to which a token would go unencrypted over the
 * network unless that is allowed.
 */
export function parseRegistryUrl(text: string, { allowPlain = false } = {}): URL {
  const url = URL.canParse(text.trim()) ? new URL(text.trim()) : null;
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new TypeError('the address of the registry is no http:// or https:// URL');
  }
  if (url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '') {
    throw new TypeError('the address of the registry has more than a host and a path');
  }
  if (url.protocol === 'http:' && !allowPlain && !isLoopbackHost(url.hostname)) {
    throw new TypeError('the address of the registry must begin with https:// unless it is on this machine');
  }
  return url;
}

/** Returns the id. Throws TypeError for one that would not stand for itself in a URL. */
export function checkedEnvironmentId(id: string): string {
  if (/^[A-Za-z0-9_-]{1,64}$/.test(id)) return id;
  throw new TypeError('the id of an environment has 1 to 64 letters, digits, - and _');
}

const STREAM_HEADER = 'x-codex-noise-stream-id';

type Action = 'register' | 'connect' | 'validate';
type Answer = Readonly<Record<string, unknown>>;
type Headers = Readonly<Record<string, string>>;

/** How long a request may take, and who may end it before. */
interface Limits {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/** What the registry is shown. Whoever has to fetch it first may not take longer than the registry. `over` has the limits in it. */
function credentialOf(auth: RegistryAuth, limits: Limits, over: AbortSignal): Promise<Headers> {
  const fetching = async () => auth.headers();
  return unlessAborted(fetching(), over, () => {
    const what = `no credential for the registry within ${limits.timeoutMs / 1_000} s`;
    throw limits.signal.aborted ? limits.signal.reason : new RegistryError(what, { retryable: true });
  });
}

/** Throws for an answer that is too long. Of a refusal the beginning is enough: its status says whether it passes. */
async function readText(response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > MAX_REGISTRY_ANSWER_BYTES) {
      response.destroy();
      if (!isSuccess(response.statusCode)) break;
      throw new RegistryError('the answer of the registry is too long', { retryable: false });
    }
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

function isSuccess(status = 0): boolean {
  return status >= 200 && status <= 299;
}

/** Passing failures are those of the reference: 408, 429, 5xx, and an environment that is known and not connected now. */
function refusal(
  action: Action,
  host: string,
  status: number,
  text: string,
  auth: RegistryAuth,
): RegistryError {
  const { code, message } = auth.revealedIn?.(text) ? { code: null, message: '' } : errorOf(text);
  const offline = status === 409 && code === 'environment_offline';
  const retryable = status >= 500 || status === 408 || status === 429 || offline;
  const said = [code, message].filter(Boolean).join(': ');
  const what = `the registry ${host} answered ${action} with HTTP ${status}${said === '' ? '' : ` (${said})`}`;
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

function parse(action: Action, text: string): Answer {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    throw malformed(action, 'it is not JSON');
  }
  if (typeof answer === 'object' && answer !== null && !Array.isArray(answer)) return answer as Answer;
  throw malformed(action, 'it is no object');
}

function textOf(action: Action, answer: Answer, key: string): string {
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

function malformed(action: Action, what: string): RegistryError {
  return new RegistryError(`the registry's answer to ${action} cannot be used: ${what}`, {
    retryable: false,
  });
}

/** What Node calls certificates that do not convince it. They do not get better by themselves. */
const NOT_TRUSTED = /CERT|SELF_SIGNED|UNABLE_TO_/;

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : '';
}

/** Several addresses of one host fail with one error that has no text of its own. */
function reasonOf(error: unknown): string {
  const failure = error instanceof AggregateError ? error.errors[0] : error;
  return failure instanceof Error ? failure.message : String(failure);
}
