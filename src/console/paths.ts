/** The path of the console. */
export const CONSOLE_PATH = '/console';

/** The URL that signs a browser in. The browser does not send the fragment, so that no log and no proxy sees the code. */
export function signInUrl(origin: string, code: string): string {
  return `${origin}${CONSOLE_PATH}/#code=${code}`;
}

/** The origin of the console of a server with a `ws:` or `wss:` URL. A browser cannot connect to the address that stands for all. */
export function consoleOrigin(serverUrl: string): string {
  const { protocol, host, hostname, port } = new URL(serverUrl);
  const own = { '0.0.0.0': `127.0.0.1:${port}`, '[::]': `[::1]:${port}` }[hostname] ?? host;
  return `${protocol === 'wss:' ? 'https' : 'http'}://${own}`;
}
