import type { IncomingMessage } from 'node:http';
import type { OwnOrigin } from './own-origin.ts';
import { CONSOLE_PATH } from './paths.ts';

/**
 * The cookie of a session. Cookies belong to a host and not to a port, so its name contains the port: consoles on several ports do not
 * overwrite each other's. The browser refuses a cookie `__Secure-…` that did not come over TLS.
 */
export function sessionCookie(origin: OwnOrigin, id: string, maxAgeSeconds: number): string {
  const secure = origin.secure ? '; Secure' : '';
  return `${cookieName(origin)}=${id}; Path=${CONSOLE_PATH}; HttpOnly; SameSite=Strict; Max-Age=${maxAgeSeconds}${secure}`;
}

/**
 * The ids of sessions that the request has. A web server on another port of this host can add cookies of the same name, so there may be
 * several. A request without an Origin does not say whether a proxy in
 * front of this server has TLS, so a listener without TLS accepts both names.
 */
export function cookiesOf(
  { headers }: Pick<IncomingMessage, 'headers'>,
  origin: OwnOrigin,
): readonly string[] {
  const cookies = headers.cookie?.split(';').map((cookie) => cookie.trim()) ?? [];
  return (origin.secure ? [true] : [true, false]).flatMap((secure) => {
    const prefix = `${cookieName({ ...origin, secure })}=`;
    return cookies.filter((cookie) => cookie.startsWith(prefix)).map((cookie) => cookie.slice(prefix.length));
  });
}

function cookieName({ host, secure }: OwnOrigin): string {
  const port = /:(\d+)$/.exec(host)?.[1] ?? 'default';
  return `${secure ? '__Secure-' : ''}exec-server-console-${port}`;
}
