import { randomBytes } from 'node:crypto';

/** The path of the console. */
export const CONSOLE_PATH = '/console';

/**
 * The URL that signs a browser in. The browser does not send the fragment, so that no log and no proxy sees the code. The query makes the
 * address new to the browser, which must not show a page that it has cached from another server on the same port.
 */
export function signInUrl(origin: string, code: string): string {
  return `${origin}${CONSOLE_PATH}/?${newNonce()}#code=${code}`;
}

/** The origin of the console of a server with a `ws:` or `wss:` URL. A browser cannot connect to the wildcard address. */
export function consoleOrigin(serverUrl: string): string {
  const { protocol, host, hostname, port } = new URL(serverUrl);
  const own = { '0.0.0.0': `127.0.0.1:${port}`, '[::]': `[::1]:${port}` }[hostname] ?? host;
  return `${protocol === 'wss:' ? 'https' : 'http'}://${own}`;
}

/** A part of an address that cannot be guessed. */
export function newNonce(): string {
  return randomBytes(9).toString('base64url');
}
