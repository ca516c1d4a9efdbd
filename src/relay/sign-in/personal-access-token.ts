import { AUTH_SERVICE_TIMEOUT_MS } from '../limits.ts';
import { isSuccess } from '../outbound/http-exchange.ts';
import type { OutboundOptions } from '../outbound/proxy.ts';
import { bearerAuth, CredentialError, type RegistryAuth } from '../registry-auth.ts';
import { type AuthServices, parseObject, serviceUrl, variable } from './auth-services.ts';

/** An authenticator and the account that it is for. */
interface AccountAuth {
  readonly auth: RegistryAuth;
  readonly accountId: string;
}

/** Asks whose token this is, because requests name the account. Rejects with CredentialError. */
export async function personalAccessTokenAuth(
  token: string,
  services: AuthServices,
  env: OutboundOptions['env'],
  signal: AbortSignal,
): Promise<AccountAuth> {
  const base = variable(env, BASE_VARIABLE);
  const url = serviceUrl(`${(base ?? DEFAULT_BASE).replace(/\/+$/, '')}${WHOAMI_PATH}`, BASE_VARIABLE);
  const headers = { authorization: `Bearer ${token}` };
  const request = { url, method: 'GET', headers, timeoutMs: AUTH_SERVICE_TIMEOUT_MS } as const;
  const { status, text } = await services.send(request, signal).catch((error: Error) => {
    throw signal.aborted ? error : refused(error.message);
  });
  if (!isSuccess(status)) throw refused(`${url.host} answered with HTTP ${status}`);
  const { chatgpt_account_id: accountId, chatgpt_account_is_fedramp: fedramp } = parseObject(text) ?? {};
  if (typeof accountId !== 'string' || typeof fedramp !== 'boolean') {
    throw refused(`the response of ${url.host} is not valid`);
  }
  try {
    return { auth: bearerAuth(token, { chatgptAccountId: accountId, fedramp }), accountId };
  } catch (error) {
    throw refused((error as Error).message);
  }
}

const BASE_VARIABLE = 'CODEX_AUTHAPI_BASE_URL';
const DEFAULT_BASE = 'https://auth.openai.com/api/accounts';
const WHOAMI_PATH = '/v1/user-auth-credential/whoami';

function refused(why: string): CredentialError {
  return new CredentialError(`cannot use the personal access token: ${why}`);
}
