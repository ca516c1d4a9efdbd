/** Authenticates requests to a registry. */
export interface RegistryAuth {
  /** Returns the headers of the next request. An error fails the request before anything is sent. */
  headers(): Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>;
  /** Whether a text contains the secret. A registration response that contains it is rejected. */
  revealedIn?(text: string): boolean;
}

/** Authenticates with a fixed token, such as an API key. Throws TypeError for a token that is not valid in a header. */
export function bearerAuth(
  token: string,
  more: { readonly chatgptAccountId?: string | null } = {},
): RegistryAuth {
  const account = more.chatgptAccountId ?? null;
  const headers = {
    authorization: `Bearer ${checkedToken(token)}`,
    ...(account !== null && { 'chatgpt-account-id': checkedToken(account) }),
  };
  return { headers: () => headers };
}

/** Returns the token. Throws TypeError for characters that are not valid in a header. */
export function checkedToken(token: string): string {
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new TypeError('a token is empty or contains invalid characters such as a space or line break');
}
