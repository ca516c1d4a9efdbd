/** Headers of a request. */
export type AuthHeaders = Readonly<Record<string, string>>;

/** Authenticates requests to a registry. */
export interface RegistryAuth {
  /** Returns the headers of the next request. An error fails the request before anything is sent. */
  headers(): AuthHeaders | Promise<AuthHeaders>;
  /**
   * Renews the credential after the registry answered HTTP 401 to a request with these headers. Returns whether the credential
   * changed. Then the request is sent once more. Without this method a 401 is final.
   */
  refreshAfterUnauthorized?(refused: AuthHeaders): Promise<boolean>;
  /** Resolves when no renewal is in progress. A program waits for it before it exits, so that no renewed credential is lost. */
  settled?(): Promise<void>;
  /** Whether a text contains the secret. A registration response that contains it is rejected. */
  revealedIn?(text: string): boolean;
}

/** A credential is missing, invalid or refused. The message contains no secret. */
export class CredentialError extends Error {
  override readonly name = 'CredentialError';
}

/** Whose account a token is for. */
export interface TokenAccount {
  readonly chatgptAccountId?: string | null;
  /** Whether the account belongs to the FedRAMP service. */
  readonly fedramp?: boolean;
}

/** Authenticates with a fixed token, such as an API key. Throws TypeError for a token that is not valid in a header. */
export function bearerAuth(token: string, account: TokenAccount = {}): RegistryAuth {
  const headers = { authorization: `Bearer ${checkedToken(token)}`, ...accountHeaders(account) };
  return { headers: () => headers };
}

/** The headers that name the account. Throws TypeError for an id that is not valid in a header. */
export function accountHeaders({ chatgptAccountId = null, fedramp = false }: TokenAccount): AuthHeaders {
  return {
    ...(chatgptAccountId !== null && { 'chatgpt-account-id': checkedToken(chatgptAccountId) }),
    ...(fedramp && { 'x-openai-fedramp': 'true' }),
  };
}

/** Returns the token. Throws TypeError for characters that are not valid in a header. */
export function checkedToken(token: string): string {
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new TypeError('a token is empty or contains invalid characters such as a space or line break');
}
