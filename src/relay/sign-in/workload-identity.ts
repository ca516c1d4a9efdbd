import { isAbsolute } from 'node:path';
import {
  AUTH_SERVICE_TIMEOUT_MS,
  MAX_IDENTITY_TOKEN_BYTES,
  MAX_WORKLOAD_TOKEN_SECONDS,
  WORKLOAD_RENEW_BEFORE_MS,
  WORKLOAD_RETRY_MS,
} from '../limits.ts';
import { isSuccess } from '../outbound/http-exchange.ts';
import type { OutboundOptions } from '../outbound/proxy.ts';
import {
  type AuthHeaders,
  accountHeaders,
  CredentialError,
  checkedToken,
  type RegistryAuth,
} from '../registry-auth.ts';
import { RegistryError } from '../registry-client.ts';
import { AuthServiceError, type AuthServices, parseObject } from './auth-services.ts';
import { openAiService } from './codex-config.ts';
import { accountClaims, decodeJwt } from './jwt.ts';
import { readSmallFile } from './small-file.ts';

const RULE_VARIABLE = 'OPENAI_FEDERATION_RULE_ID';
const FILE_VARIABLE = 'OPENAI_IDENTITY_TOKEN_FILE';
const CONTEXT_VARIABLE = 'OPENAI_WORKLOAD_IDENTITY_CONTEXT';

/** Whether the variables select workload identity. One of them is enough, so that a missing one is an error. */
export function selectsWorkloadIdentity(env: OutboundOptions['env']): boolean {
  return env[RULE_VARIABLE] !== undefined || env[FILE_VARIABLE] !== undefined;
}

/** How a workload signs in. Tests pass another address and a clock. */
interface WorkloadSignIn {
  readonly services: AuthServices;
  readonly env: OutboundOptions['env'];
  /** `chatgpt_base_url` of codex's configuration. */
  readonly chatgptBaseUrl: string;
  readonly workspaces: readonly string[] | null;
  readonly tokenUrl?: URL;
  readonly now?: () => number;
}

/**
 * Exchanges the identity token of a workload, which its platform keeps in a file, for a short-lived access token. Keeps the access
 * token in memory and renews it before it expires.
 */
export class WorkloadIdentity implements RegistryAuth {
  readonly #services: AuthServices;
  readonly #tokenUrl: URL;
  readonly #workspaces: readonly string[] | null;
  readonly #now: () => number;
  readonly #ruleId: string;
  readonly #file: string;
  readonly #context: string | undefined;
  #current: AccessToken | null = null;
  /** The account and user of the first token. They must not change. */
  #subject: string | null = null;
  #exchanging: Promise<AccessToken> | null = null;

  /** Throws CredentialError for invalid variables. */
  constructor({ services, env, chatgptBaseUrl, workspaces, tokenUrl, now = Date.now }: WorkloadSignIn) {
    this.#services = services;
    this.#tokenUrl = tokenUrl ?? tokenUrlOf(chatgptBaseUrl);
    this.#workspaces = workspaces;
    this.#now = now;
    this.#ruleId = env[RULE_VARIABLE]?.trim() ?? '';
    this.#file = env[FILE_VARIABLE] ?? '';
    this.#context = env[CONTEXT_VARIABLE];
    if (this.#ruleId === '') throw new CredentialError(`workload identity needs ${RULE_VARIABLE}`);
    if (this.#file === '') throw new CredentialError(`workload identity needs ${FILE_VARIABLE}`);
    if (!isAbsolute(this.#file)) throw new CredentialError(`${FILE_VARIABLE} must be an absolute path`);
  }

  /** Rejects with CredentialError, or with RegistryError when the exchange may succeed later. */
  async headers(): Promise<AuthHeaders> {
    return headersOf(await this.#token());
  }

  async refreshAfterUnauthorized(refused: AuthHeaders): Promise<boolean> {
    const current = this.#current;
    if (current !== null && headersOf(current).authorization !== refused.authorization) return true;
    this.#current = null;
    try {
      await this.#exchangeOnce();
      return true;
    } catch {
      return false;
    }
  }

  async #token(): Promise<AccessToken> {
    const current = this.#current;
    if (current !== null && current.renewAt > this.#now()) return current;
    try {
      return await this.#exchangeOnce();
    } catch (error) {
      const now = this.#now();
      if (!(error instanceof RegistryError) || current === null || current.expiresAt <= now) throw error;
      current.renewAt = Math.min(now + WORKLOAD_RETRY_MS, current.expiresAt);
      return current;
    }
  }

  /** Concurrent callers share one exchange. */
  #exchangeOnce(): Promise<AccessToken> {
    this.#exchanging ??= this.#exchange().finally(() => {
      this.#exchanging = null;
    });
    return this.#exchanging;
  }

  async #exchange(): Promise<AccessToken> {
    const issuedAt = this.#now();
    const body = new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: await this.#identityToken(),
      federation_rule_id: this.#ruleId,
      ...(this.#context !== undefined && { workload_identity_context: this.#context }),
    });
    const { status, text } = await this.#services
      .send({
        url: this.#tokenUrl,
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: body.toString(),
        timeoutMs: AUTH_SERVICE_TIMEOUT_MS,
      })
      .catch((error: unknown) => {
        throw error instanceof AuthServiceError ? temporary(error.message) : error;
      });
    if (!isSuccess(status)) {
      const why = `${this.#tokenUrl.host} answered with HTTP ${status}`;
      throw status === 408 || status === 429 || status >= 500 ? temporary(why) : permanent(why);
    }
    const token = parseToken(text, issuedAt);
    if (token === null) throw permanent(`the response of ${this.#tokenUrl.host} is not valid`);
    this.#checkSubject(token);
    this.#current = token;
    return token;
  }

  #checkSubject({ subject, accountId }: AccessToken): void {
    if (this.#workspaces !== null && !this.#workspaces.includes(accountId)) {
      throw permanent('its account is not in forced_chatgpt_workspace_id');
    }
    this.#subject ??= subject;
    if (this.#subject !== subject) throw permanent('the account or user changed');
  }

  async #identityToken(): Promise<string> {
    let text: string | null;
    try {
      text = await readSmallFile(this.#file, MAX_IDENTITY_TOKEN_BYTES);
    } catch (error) {
      throw permanent((error as Error).message);
    }
    // The platform may be replacing the file.
    if (text === null) throw temporary(`${this.#file} does not exist`);
    const token = text.trim();
    if (token === '' || token.includes('\0')) throw permanent(`${this.#file} contains no token`);
    return token;
  }
}

/** A token that the exchange issued. */
interface AccessToken {
  readonly token: string;
  readonly accountId: string;
  readonly subject: string;
  readonly expiresAt: number;
  renewAt: number;
}

function headersOf({ token, accountId }: AccessToken): AuthHeaders {
  return { authorization: `Bearer ${token}`, ...accountHeaders({ chatgptAccountId: accountId }) };
}

/** Null when a member is missing or invalid. */
function parseToken(text: string, issuedAt: number): AccessToken | null {
  const answer = parseObject(text) ?? {};
  const texts = TEXT_MEMBERS.map((name) => answer[name]);
  const { expires_in: seconds, chatgpt_plan_type: plan } = answer;
  if (!texts.every((value) => typeof value === 'string' && value.trim() !== '')) return null;
  const [token, accountId, accountUserId, userId, , tokenType, issuedType] = texts as string[];
  if (tokenType!.toLowerCase() !== 'bearer' || issuedType !== ACCESS_TOKEN_TYPE) return null;
  if (typeof seconds !== 'number' || !Number.isInteger(seconds)) return null;
  if (seconds < 1 || seconds > MAX_WORKLOAD_TOKEN_SECONDS) return null;
  if (plan != null && (typeof plan !== 'string' || plan.trim() === '')) return null;
  const jwt = decodeJwt(token!);
  if (jwt === null || accountClaims(jwt).userId !== userId) return null;
  try {
    checkedToken(accountId!);
  } catch {
    return null;
  }
  const life = seconds * 1_000;
  return {
    token: token!,
    accountId: accountId!,
    subject: JSON.stringify([accountId, accountUserId, userId]),
    expiresAt: issuedAt + life,
    renewAt: issuedAt + life - Math.min(WORKLOAD_RENEW_BEFORE_MS, life / 2),
  };
}

const ACCESS_TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:access_token';
const TEXT_MEMBERS = [
  'access_token',
  'chatgpt_account_id',
  'chatgpt_account_user_id',
  'user_id',
  'scope',
  'token_type',
  'issued_token_type',
] as const;

/** The exchange of OpenAI's production or staging service. Throws CredentialError for a base URL of another service. */
function tokenUrlOf(chatgptBaseUrl: string): URL {
  const service = openAiService(chatgptBaseUrl);
  if (service === null) throw permanent('chatgpt_base_url is not an address of OpenAI');
  const host = service === 'staging' ? 'auth.api.openai.org' : 'auth.openai.com';
  return new URL(`https://${host}/oauth/token`);
}

function permanent(why: string): CredentialError {
  return new CredentialError(`cannot sign in with workload identity: ${why}`);
}

function temporary(why: string): RegistryError {
  return new RegistryError(`cannot sign in with workload identity: ${why}`, { retryable: true });
}
