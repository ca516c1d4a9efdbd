import { isObject } from '../../base/is-object.ts';
import type { Logger } from '../../observability/log.ts';
import { AUTH_SERVICE_TIMEOUT_MS, RENEW_AFTER_MS, RENEW_BEFORE_EXPIRY_MS } from '../limits.ts';
import { isSuccess } from '../outbound/http-exchange.ts';
import type { OutboundOptions } from '../outbound/proxy.ts';
import { type AuthHeaders, accountHeaders, checkedToken, type RegistryAuth } from '../registry-auth.ts';
import type { AuthFile, AuthJson } from './auth-file.ts';
import { type AuthServices, parseObject, serviceUrl, variable } from './auth-services.ts';
import { accountClaims, decodeJwt, expiryOf } from './jwt.ts';

/** The tokens of a ChatGPT login. */
interface ChatGptTokens {
  readonly idToken: string;
  readonly accessToken: string;
  readonly refreshToken: string;
  /** Sent to the registry. Null when auth.json does not name an account. */
  readonly accountId: string | null;
  /** The account that the login belongs to, also when it is not sent. */
  readonly identity: string | null;
  readonly fedramp: boolean;
  /** Milliseconds since 1970; null when unknown. */
  readonly lastRefresh: number | null;
}

/** What a login uses. Tests pass a clock. */
interface LoginOptions {
  readonly file: AuthFile;
  readonly services: AuthServices;
  readonly env: OutboundOptions['env'];
  readonly log: Logger;
  /** False for tokens that another program renews. */
  readonly renewable: boolean;
  readonly now?: () => number;
}

/** Why a token is renewed. The service receives it. */
type Reason = 'proactive_expiry' | 'scheduled' | 'forced';

/**
 * Authenticates with the ChatGPT login in auth.json. Renews it before it expires and after a 401, and writes the new tokens back. If
 * the renewal fails, requests carry the old token.
 */
export class ChatGptLogin implements RegistryAuth {
  readonly #options: LoginOptions;
  readonly #now: () => number;
  readonly #url: URL;
  #tokens: ChatGptTokens;
  /** The tokens in auth.json when it was last read or written. They are older than ours if it could not be written. */
  #stored: ChatGptTokens;
  /** The refresh token that the service does not accept any more. */
  #rejected: string | null = null;
  #renewing: Promise<boolean> | null = null;

  /** Throws CredentialError for an invalid address of the token service. */
  constructor(tokens: ChatGptTokens, options: LoginOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#url = serviceUrl(options.env[URL_VARIABLE] ?? DEFAULT_URL, URL_VARIABLE);
    this.#tokens = tokens;
    this.#stored = tokens;
  }

  async headers(): Promise<AuthHeaders> {
    const reason = this.#dueReason();
    if (reason !== null) await this.#renew(reason);
    return headersOf(this.#tokens);
  }

  async refreshAfterUnauthorized(refused: AuthHeaders): Promise<boolean> {
    if (headersOf(this.#tokens).authorization !== refused.authorization) return true;
    return this.#renew('forced');
  }

  /** Resolves when no renewal is in progress. */
  async settled(): Promise<void> {
    await this.#renewing;
  }

  #dueReason(): Reason | null {
    const { accessToken, lastRefresh } = this.#tokens;
    const expiry = expiryOf(accessToken);
    if (expiry !== null) return expiry <= this.#now() + RENEW_BEFORE_EXPIRY_MS ? 'proactive_expiry' : null;
    return lastRefresh !== null && lastRefresh < this.#now() - RENEW_AFTER_MS ? 'scheduled' : null;
  }

  /** Returns whether the tokens changed. Concurrent callers share one renewal. */
  #renew(reason: Reason): Promise<boolean> {
    this.#renewing ??= this.#options.file
      .locked(() => this.#renewLocked(reason))
      .catch((error: Error) => this.#failed(error.message))
      .finally(() => {
        this.#renewing = null;
      });
    return this.#renewing;
  }

  /** Another process may have renewed the login. Its refresh token works only once, so that file decides. */
  async #renewLocked(reason: Reason): Promise<boolean> {
    const json = await this.#options.file.read();
    const found = json === null ? null : chatGptTokensOf(json);
    if (json === null || found === null) return this.#failed('auth.json has no ChatGPT login any more');
    if (!sameTokens(found, this.#stored)) {
      if (found.identity === null || found.identity !== this.#tokens.identity) {
        return this.#failed('auth.json has the login of another account');
      }
      this.#stored = found;
      this.#tokens = found;
      return true;
    }
    if (!this.#options.renewable) return this.#failed('another program renews it');
    if (this.#tokens.refreshToken === this.#rejected) return false;
    const answer = await this.#request(reason);
    if (answer === null) return false;
    const renewed = {
      ...json,
      tokens: { ...(json.tokens as AuthJson), ...answer },
      last_refresh: this.#date(),
    };
    const tokens = chatGptTokensOf(renewed);
    if (tokens === null) return this.#failed(`the response of ${this.#url.host} is not valid`);
    this.#tokens = tokens;
    await this.#store(renewed, tokens);
    return true;
  }

  /** Returns the new tokens, named as in auth.json; null when the renewal failed. */
  async #request(reason: Reason): Promise<AuthJson | null> {
    const { services, env } = this.#options;
    const { refreshToken } = this.#tokens;
    const { status, text } = await services.send({
      url: this.#url,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        client_id: variable(env, CLIENT_VARIABLE) ?? CLIENT_ID,
        grant_type: 'refresh_token',
        refresh_reason: reason,
        refresh_token: refreshToken,
      }),
      timeoutMs: AUTH_SERVICE_TIMEOUT_MS,
    });
    const answer = parseObject(text);
    if (isSuccess(status) && answer !== null) {
      return Object.fromEntries(
        TOKEN_NAMES.filter((name) => typeof answer[name] === 'string').map((name) => [name, answer[name]]),
      );
    }
    const code = errorCodeOf(answer ?? {});
    const permanent =
      status === 401 || (status === 400 && code === 'invalid_grant') || PERMANENT_CODES.has(code);
    if (permanent) this.#rejected = refreshToken;
    const advice = permanent ? '; sign in again with `codex login`' : '';
    this.#failed(`${this.#url.host} answered with HTTP ${status}${advice}`);
    return null;
  }

  async #store(json: AuthJson, tokens: ChatGptTokens): Promise<void> {
    const { file, log } = this.#options;
    try {
      await file.write(json);
      this.#stored = tokens;
    } catch (error) {
      // The tokens work until this process ends. The file has a refresh token that does not work any more.
      log.error('cannot store the renewed login; sign in again before the next start', {
        file: file.path,
        reason: (error as Error).message,
      });
    }
  }

  #failed(reason: string): false {
    this.#options.log.warn('cannot renew the login', { reason });
    return false;
  }

  #date(): string {
    return new Date(this.#now()).toISOString();
  }
}

const URL_VARIABLE = 'CODEX_REFRESH_TOKEN_URL_OVERRIDE';
const DEFAULT_URL = 'https://auth.openai.com/oauth/token';
const CLIENT_VARIABLE = 'CODEX_APP_SERVER_LOGIN_CLIENT_ID';
const CLIENT_ID = 'app_EMoamEEZ73f0CkXaXp7hrann';
const TOKEN_NAMES = ['id_token', 'access_token', 'refresh_token'] as const;
const PERMANENT_CODES: ReadonlySet<string> = new Set([
  'refresh_token_expired',
  'refresh_token_reused',
  'refresh_token_invalidated',
]);

/** Reads the tokens of auth.json; null when one is missing or invalid. */
export function chatGptTokensOf({ tokens, last_refresh: lastRefresh }: AuthJson): ChatGptTokens | null {
  if (!isObject(tokens)) return null;
  const { id_token: idToken, access_token: accessToken, refresh_token: refreshToken } = tokens;
  const accountId = tokens.account_id ?? null;
  if (typeof idToken !== 'string' || typeof accessToken !== 'string' || typeof refreshToken !== 'string')
    return null;
  if (accountId !== null && typeof accountId !== 'string') return null;
  const jwt = decodeJwt(idToken);
  if (jwt === null) return null;
  try {
    checkedToken(accessToken);
    if (accountId !== null) checkedToken(accountId);
  } catch {
    return null;
  }
  const claims = accountClaims(jwt);
  const date = typeof lastRefresh === 'string' ? Date.parse(lastRefresh) : Number.NaN;
  return {
    idToken,
    accessToken,
    refreshToken,
    accountId,
    identity: accountId ?? claims.accountId,
    fedramp: claims.fedramp,
    lastRefresh: Number.isNaN(date) ? null : date,
  };
}

function sameTokens(one: ChatGptTokens, other: ChatGptTokens): boolean {
  return (
    one.idToken === other.idToken &&
    one.accessToken === other.accessToken &&
    one.refreshToken === other.refreshToken &&
    one.accountId === other.accountId
  );
}

function headersOf({ accessToken, accountId: chatgptAccountId, fedramp }: ChatGptTokens): AuthHeaders {
  return { authorization: `Bearer ${accessToken}`, ...accountHeaders({ chatgptAccountId, fedramp }) };
}

/** `{"error":{"code"}}`, `{"error"}` or `{"code"}`, in lower case; empty without a code. */
function errorCodeOf({ error, code }: AuthJson): string {
  const found = isObject(error) ? error.code : (error ?? code);
  return typeof found === 'string' ? found.toLowerCase() : '';
}
