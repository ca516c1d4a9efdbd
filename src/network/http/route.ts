import { NetworkError } from '../errors.ts';
import type { Variables } from './header-fields.ts';
import { bareHost } from './host-policy.ts';
import { proxyFor } from './proxies.ts';
import { authorityOf, portOf } from './request.ts';

/** How a web server is reached. Requests with equal keys can share connections. */
export interface Route {
  readonly key: string;
  readonly host: string;
  readonly port: number;
  /** Whether the server is spoken to over TLS. */
  readonly secure: boolean;
  /** `host:port`, with the brackets of an address. */
  readonly authority: string;
  readonly proxy: URL | null;
}

/** The way to the server of a URL. Throws NetworkError when the environment names a proxy that cannot be used. */
export function routeTo(url: URL, env: Variables): Route {
  const secure = url.protocol === 'https:';
  const named = proxyFor(url, env);
  const proxy = named === null ? null : proxyUrl(named);
  const target = { host: bareHost(url), port: portOf(url), secure, authority: authorityOf(url), proxy };
  // Without TLS a proxy takes requests for every server on one connection.
  const end = proxy !== null && !secure ? '' : target.authority;
  return { ...target, key: `${url.protocol} ${end} ${proxy?.href ?? ''}` };
}

/** A proxy may be given without a scheme. */
function proxyUrl(text: string): URL {
  const whole = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  if (URL.canParse(whole)) {
    const url = new URL(whole);
    if (url.protocol === 'http:' || url.protocol === 'https:') return url;
  }
  throw new NetworkError(
    'failed',
    'http/request failed: the proxy of the environment is not an http or https URL',
  );
}
