import type { IncomingMessage } from 'node:http';
import { MAX_HOST_LENGTH } from './limits.ts';

/** The origin of the console as a browser sees it. */
export interface OwnOrigin {
  /** `HOST` or `HOST:PORT`, as the browser writes it. */
  readonly host: string;
  readonly secure: boolean;
}

/**
 * Compares the Origin of a request with the console's own. The caller has checked that `host` is a name of this server; without that, a
 * web page whose name resolves to this machine would be its own console (DNS rebinding). Returns null when the origin is another one, or
 * absent where `required`. A listener without TLS may be behind a proxy that has TLS.
 */
export function ownOrigin(
  { headers }: Pick<IncomingMessage, 'headers'>,
  host: string | undefined,
  { tls, required }: { readonly tls: boolean; readonly required: boolean },
): OwnOrigin | null {
  if (host === undefined || host.length > MAX_HOST_LENGTH || !HOST.test(host)) return null;
  const own = host.toLowerCase();
  const { origin } = headers;
  if (origin === undefined) return required ? null : { host: own, secure: tls };
  if (origin === `https://${own}`) return { host: own, secure: true };
  return !tls && origin === `http://${own}` ? { host: own, secure: false } : null;
}

/** A name or an address with an optional port. Nothing in it has a meaning in a header. */
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?$/;
