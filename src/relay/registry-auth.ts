/** Shows a registry who is asking. */
export interface RegistryAuth {
  /** Headers of the next request. What it throws or rejects with fails the request before anything is sent. */
  headers(): Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>;
  /** Whether a text holds what must stay secret. An answer to a registration that does is refused. */
  revealedIn?(text: string): boolean;
}

/** A token that does not change, such as an API key. Throws TypeError for one that no header can carry. */
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

/** Returns the token. Throws TypeError for one with characters that no header can carry. */
export function checkedToken(token: string): string {
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new TypeError('a token is empty or has characters that no token can have, such as a line end');
}
