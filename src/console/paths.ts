/** The path of the console. */
export const CONSOLE_PATH = '/console';

/** The URL that signs a browser in. The browser does not send the fragment, so that no log and no proxy sees the code. */
export function signInUrl(origin: string, code: string): string {
  return `${origin}${CONSOLE_PATH}/#code=${code}`;
}
